#include "cli/terminal/interrupt.h"

#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/system.h"
#include "base/text_layout.h"

namespace ft::cli {
namespace {

constexpr std::int64_t kTogetherNs = 300'000'000;  // signals of one stop request come within this time

std::atomic<int> pipe_end{-1};

void on_signal(int signal) {
  const int saved = errno;
  const char byte = signal == SIGHUP ? 'h' : 's';
  if (const int end = pipe_end.load(); end >= 0 && ::write(end, &byte, 1) < 0) {
    // The pipe already contains a signal.
  }
  errno = saved;
}

void install(int signal, void (*handler)(int)) {
  struct sigaction action{};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);  // a macro on macOS
  ::sigaction(signal, &action, nullptr);
}

void install(void (*handler)(int)) {
  install(SIGINT, handler);
  install(SIGTERM, handler);
}

bool is_ignored(int signal) {
  struct sigaction now{};
  return ::sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

bool has_terminal() {
  const int terminal = ::open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC);
  if (terminal >= 0) ::close(terminal);
  return terminal >= 0;
}

}  // namespace

std::string stopped_text(std::int64_t kept_bytes) {
  if (kept_bytes == 0) return "stopped; nothing was changed";
  return fmt::format("stopped; {} are kept, and the same command continues from there",
                     bytes_text(static_cast<double>(kept_bytes)));
}

Interrupt::Interrupt(std::function<void()> act, std::function<void()> reload)
    : act_(std::move(act)), reload_(std::move(reload)) {
  int ends[2];
  if (!open_pipe(ends)) return;
  read_ = ends[0], write_ = ends[1];
  pipe_end = write_;
  thread_ = std::thread([this] { watch(); });
  install(on_signal);
  had_terminal_ = has_terminal();
  takes_hang_ups_ = reload_ && !is_ignored(SIGHUP);
  if (takes_hang_ups_) install(SIGHUP, on_signal);
}

Interrupt::~Interrupt() {
  if (write_ < 0) return;
  install(SIG_DFL);
  if (takes_hang_ups_) install(SIGHUP, SIG_DFL);
  pipe_end = -1;
  const char byte = 'q';
  while (::write(write_, &byte, 1) < 0 && errno == EINTR) {
  }
  thread_.join();
  ::close(read_);
  ::close(write_);
}

/// Whether SIGHUP means a reload, not the end of a program whose terminal was closed.
bool Interrupt::reloads() const { return !had_terminal_ || has_terminal(); }

void Interrupt::watch() {
  std::int64_t first_ns = 0;
  for (;;) {
    char byte = 0;
    const ssize_t got = ::read(read_, &byte, 1);
    if (got < 0 && errno == EINTR) continue;
    if (got != 1 || byte == 'q') return;
    if (byte == 'h' && reloads()) {
      reload_();
      continue;
    }
    const std::int64_t now_ns = steady_ns();
    if (happened_.exchange(true)) {
      if (now_ns - first_ns < kTogetherNs) continue;
      install(SIG_DFL);  // the second signal ends the program at once
      ::raise(SIGINT);
      continue;
    }
    first_ns = now_ns;
    act_();
    const std::lock_guard lock(mutex_);
    has_acted_ = true;
    acted_.notify_all();
  }
}

void Interrupt::wait() {
  std::unique_lock lock(mutex_);
  acted_.wait(lock, [this] { return has_acted_; });
}

}  // namespace ft::cli
