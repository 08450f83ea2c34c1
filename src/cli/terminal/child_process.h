// A program that this one starts and waits for. A foreground program shares the terminal and its keys; a
// background one gets a separate process group, so that Ctrl-C does not reach it, and on Linux it ends with
// this program unless it `stays`. Thread: one; start() forks, so no other thread may hold a lock that the
// child needs. Errors: kNotFound if there is no such program, kIo otherwise.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <utility>
#include <vector>

#include "base/result.h"

namespace ft::cli {

struct ChildOptions {
  std::string program;  // a path
  std::vector<std::string> arguments;
  std::vector<std::pair<std::string, std::string>> variables;  // added to the environment, or replaced
  std::vector<std::string> removed;                            // from the environment
  bool background = false;
  std::string log;             // of a background program: the file of its stderr; empty: none
  bool shares_errors = false;  // a background program: its stderr is ours
  bool takes_input = false;    // a background program: its stdin is a pipe, which ends with this program
  bool stays = false;          // a background program: in a session of its own, it may outlive this program
};

class ChildProcess {
 public:
  static Result<ChildProcess> start(const ChildOptions& options);
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&& other) noexcept;
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  ~ChildProcess();  // stops a background program that still runs

  /// Status as a shell gives it: 128 and the signal for a program that a signal ended. Meanwhile SIGINT and
  /// SIGQUIT are left to the child, and SIGTERM and SIGHUP are passed on to it.
  int wait();
  /// The first line of a background program's stdout; none if it ended first or `stop` became true.
  std::optional<std::string> first_line(const volatile bool& stop);
  /// SIGTERM, and SIGKILL after `grace_s` seconds.
  void stop(double grace_s);
  /// Reads a background program's stdout.
  int output() const { return out_; }
  /// Writes to its stdin; has no effect on a program that has ended.
  void tell(std::string_view text) const;
  void signal(int number);
  /// Lets a background program run on; its pipes end.
  void leave() { pid_ = -1; }
  /// Does not wait.
  bool has_ended() { return ended(false); }

 private:
  ChildProcess(pid_t pid, int out, int in) : pid_(pid), out_(out), in_(in) {}
  bool ended(bool block);

  pid_t pid_;
  int out_;  // reads its stdout; -1: it shares ours
  int in_;   // writes its stdin; -1: there is no pipe
  std::optional<int> status_;
};

/// The path of a program on PATH; empty if there is none.
std::string find_program(const std::string& name);

}  // namespace ft::cli
