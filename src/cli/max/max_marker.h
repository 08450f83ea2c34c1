// The marker of Max mode: a file that lists the processes that keep the fans at maximum, so that the next
// command can restore them after all were killed. A process is identified by its number and start; `since` is
// the time when it turned Max mode on. Thread: any; processes take turns through a lock. Every change is on
// the disk when a call returns. Errors: kIo.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace ft::cli {

struct MaxUser {
  int process = 0;
  std::int64_t start = 0;
  int guard = 0;  // its guard process
  std::int64_t guard_start = 0;
  bool idle = false;
  std::int64_t since = 0;  // seconds of the Unix epoch; 0: the marker says now when it is set
};

class MaxMarker {
 public:
  /// Below the state folder.
  static Result<MaxMarker> open();

  /// The users whose process or guard is alive, and whether others were dropped.
  struct Users {
    std::vector<MaxUser> alive;
    bool dropped = false;
  };
  Users users() const;
  /// Adds or replaces the entry of user.process. The same process keeps its `since`.
  Status set(MaxUser user) const;
  /// The remaining users.
  Result<std::vector<MaxUser>> remove(int process) const;

 private:
  explicit MaxMarker(std::string path) : path_(std::move(path)) {}
  Status write(const std::vector<MaxUser>& users) const;
  std::string path_;
};

}  // namespace ft::cli
