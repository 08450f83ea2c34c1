#include "cli/terminal/child_process.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

extern char** environ;

namespace ft::cli {
namespace {

std::atomic<pid_t> foreground{0};  // gets the signals that end this program

void pass_on(int number) {
  const pid_t pid = foreground;
  if (pid > 0) ::kill(pid, number);
}

/// While it lives, the child receives the terminal's keys.
class ChildHasKeys {
 public:
  explicit ChildHasKeys(pid_t pid) {
    foreground = pid;
    for (std::size_t i = 0; i < std::size(kSignals); ++i) {
      struct sigaction action{};
      action.sa_handler = i < kIgnored ? SIG_IGN : pass_on;
      ::sigaction(kSignals[i], &action, &before_[i]);
    }
  }
  ~ChildHasKeys() {
    for (std::size_t i = 0; i < std::size(kSignals); ++i) ::sigaction(kSignals[i], &before_[i], nullptr);
    foreground = 0;
  }
  ChildHasKeys(const ChildHasKeys&) = delete;
  ChildHasKeys& operator=(const ChildHasKeys&) = delete;

 private:
  static constexpr int kSignals[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP};
  static constexpr std::size_t kIgnored = 2;
  struct sigaction before_[std::size(kSignals)] = {};
};

std::vector<std::string> environment_of(const ChildOptions& options) {
  std::vector<std::string> lines;
  for (char** line = environ; *line != nullptr; ++line) {
    const std::string text = *line, name = text.substr(0, text.find('='));
    const bool replaced =
        std::ranges::any_of(options.variables, [&](const auto& one) { return one.first == name; });
    if (!replaced && std::ranges::find(options.removed, name) == options.removed.end()) lines.push_back(text);
  }
  for (const auto& [name, value] : options.variables) lines.push_back(name + "=" + value);
  return lines;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> list;
  for (std::string& text : texts) list.push_back(text.data());
  list.push_back(nullptr);
  return list;
}

/// In the child between fork and exec: system calls only.
[[noreturn]] void exec_child(const ChildOptions& options, char** arguments, char** environment, int in,
                             int out, int err, int failure) {
  for (const int number : {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGPIPE}) ::signal(number, SIG_DFL);
  if (options.background) {
    if (options.stays) {
      ::setsid();
    } else {
      ::setpgid(0, 0);
#ifdef __linux__
      ::prctl(PR_SET_PDEATHSIG, SIGTERM);
#endif
    }
    const int none = ::open("/dev/null", O_RDWR);
    ::dup2(in >= 0 ? in : none, STDIN_FILENO);
    ::dup2(out, STDOUT_FILENO);
    if (!options.shares_errors) ::dup2(err >= 0 ? err : none, STDERR_FILENO);
  }
  ::execve(options.program.c_str(), arguments, environment);
  const int number = errno;
  (void)!::write(failure, &number, sizeof number);
  ::_exit(127);
}

struct Pipe {
  int read = -1, write = -1;
  bool open() {
    int ends[2];
    if (::pipe(ends) != 0) return false;
    read = ends[0], write = ends[1];
    for (const int end : ends) ::fcntl(end, F_SETFD, FD_CLOEXEC);
    return true;
  }
  void close() {
    if (read >= 0) ::close(read);
    if (write >= 0) ::close(write);
    read = write = -1;
  }
};

}  // namespace

std::string find_program(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::string rest = path != nullptr ? path : "";
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(':'), rest.size());
    const std::string file = (end == 0 ? "." : rest.substr(0, end)) + "/" + name;
    struct stat info{};
    if (::stat(file.c_str(), &info) == 0 && S_ISREG(info.st_mode) && ::access(file.c_str(), X_OK) == 0)
      return file;
    rest.erase(0, end + 1);
  }
  return {};
}

Result<ChildProcess> ChildProcess::start(const ChildOptions& options) {
  std::vector<std::string> words = options.arguments, variables = environment_of(options);
  words.insert(words.begin(), options.program.substr(options.program.rfind('/') + 1));
  const std::vector<char*> arguments = pointers(words), environment = pointers(variables);
  Pipe failure, out, in;
  const bool takes_input = options.background && options.takes_input;
  if (!failure.open() || (options.background && !out.open()) || (takes_input && !in.open())) {
    const Error error{Code::kIo, fmt::format("no pipe for {}: {}", options.program, std::strerror(errno))};
    for (Pipe* pipe : {&failure, &out, &in}) pipe->close();
    return error;
  }
  const int err = options.background && !options.log.empty()
                      ? ::open(options.log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)
                      : -1;
  const pid_t pid = ::fork();
  if (pid == 0)
    exec_child(options, const_cast<char**>(arguments.data()), const_cast<char**>(environment.data()), in.read,
               out.write, err, failure.write);
  const int forked = errno;
  if (err >= 0) ::close(err);
  ::close(std::exchange(failure.write, -1));
  if (out.write >= 0) ::close(std::exchange(out.write, -1));
  if (in.read >= 0) ::close(std::exchange(in.read, -1));
  int number = 0;
  const bool failed = pid < 0 || ::read(failure.read, &number, sizeof number) == sizeof number;
  failure.close();
  if (!failed) return ChildProcess(pid, out.read, in.write);
  if (pid > 0) ::waitpid(pid, nullptr, 0);
  out.close();
  in.close();
  if (pid < 0) number = forked;
  return Error{number == ENOENT ? Code::kNotFound : Code::kIo,
               fmt::format("{} cannot be started: {}", options.program, std::strerror(number))};
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      out_(std::exchange(other.out_, -1)),
      in_(std::exchange(other.in_, -1)),
      status_(other.status_) {}

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(out_, other.out_);
  std::swap(in_, other.in_);
  std::swap(status_, other.status_);
  return *this;
}

ChildProcess::~ChildProcess() {
  constexpr double kGraceS = 5;
  if (pid_ > 0 && out_ >= 0) stop(kGraceS);
  if (out_ >= 0) ::close(out_);
  if (in_ >= 0) ::close(in_);
}

/// True once it has ended; `block` waits for that.
bool ChildProcess::ended(bool block) {
  if (status_ || pid_ <= 0) return true;
  int status = 0;
  pid_t got = 0;
  do {
    got = ::waitpid(pid_, &status, block ? 0 : WNOHANG);
  } while (got < 0 && errno == EINTR);
  if (got == 0) return false;
  constexpr int kOfSignal = 128;
  status_ = got < 0 ? 1 : WIFSIGNALED(status) ? kOfSignal + WTERMSIG(status) : WEXITSTATUS(status);
  return true;
}

int ChildProcess::wait() {
  const ChildHasKeys keys(pid_);
  ended(true);
  return *status_;
}

std::optional<std::string> ChildProcess::first_line(const volatile bool& stop) {
  constexpr int kLookMs = 100;
  std::string text;
  while (!stop) {
    pollfd waiting{out_, POLLIN, 0};
    if (::poll(&waiting, 1, kLookMs) <= 0) continue;
    char bytes[512];
    const ssize_t got = ::read(out_, bytes, sizeof bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return {};
    text.append(bytes, static_cast<std::size_t>(got));
    if (const std::size_t end = text.find('\n'); end != std::string::npos) return text.substr(0, end);
  }
  return {};
}

void ChildProcess::tell(std::string_view text) const {
  while (in_ >= 0 && !text.empty()) {
    const ssize_t sent = ::write(in_, text.data(), text.size());
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(sent));
  }
}

void ChildProcess::signal(int number) {
  if (!ended(false)) ::kill(pid_, number);
}

void ChildProcess::stop(double grace_s) {
  if (ended(false)) return;
  ::kill(pid_, SIGTERM);
  constexpr auto kLook = std::chrono::milliseconds(20);
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(grace_s);
  while (!ended(false) && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(kLook);
  if (ended(false)) return;
  ::kill(pid_, SIGKILL);
  ended(true);
}

}  // namespace ft::cli
