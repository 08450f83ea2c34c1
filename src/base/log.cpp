#include "base/log.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <fmt/format.h>
#include <memory>
#include <mutex>
#include <poll.h>
#include <spdlog/async.h>
#include <spdlog/async_logger.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include "base/printable.h"

namespace ft {
namespace {

constexpr const char* kPlain = "plain";  // the logger whose lines are written as they are

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarn:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kOff:
      return spdlog::level::off;
  }
  return spdlog::level::info;
}

/// Writes without stdio, whose lock is held by a thread that waits for its reader.
void write_line(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EAGAIN) {
      pollfd ready{fd, POLLOUT, 0};
      (void)::poll(&ready, 1, -1);
    } else if (errno != EINTR) {
      return;  // it has no reader
    }
  }
}

class Sink : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit Sink(int fd, std::shared_ptr<spdlog::details::thread_pool> pool = nullptr)
      : fd_(fd), pool_(std::move(pool)) {}

  /// Until flush_ has run once more.
  bool wait_for_flush(int flushes, std::chrono::milliseconds patience) {
    std::unique_lock lock(flushed_mutex_);
    return flushed_changed_.wait_for(lock, patience, [&] { return flushes_ > flushes; });
  }
  int flushes() const {
    const std::lock_guard lock(flushed_mutex_);
    return flushes_;
  }

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    say_what_was_dropped();
    if (message.logger_name == spdlog::string_view_t(kPlain)) {
      std::string line(message.payload.data(), message.payload.size());
      return write_line(fd_, line += '\n');
    }
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    write_line(fd_, {line.data(), line.size()});
  }

  void flush_() override {
    say_what_was_dropped();
    const std::lock_guard lock(flushed_mutex_);
    ++flushes_;
    flushed_changed_.notify_all();
  }

 private:
  void say_what_was_dropped() {
    if (pool_ == nullptr) return;
    const std::size_t dropped = pool_->overrun_counter();
    if (dropped == said_) return;
    write_line(fd_, fmt::format("{} log lines were dropped: stderr was not read in time\n", dropped - said_));
    said_ = dropped;
  }

  const int fd_;
  const std::shared_ptr<spdlog::details::thread_pool> pool_;
  std::size_t said_ = 0;
  mutable std::mutex flushed_mutex_;
  std::condition_variable flushed_changed_;
  int flushes_ = 0;
};

struct Loggers {
  std::shared_ptr<Sink> sink;
  std::shared_ptr<spdlog::logger> usual, plain;
  Loggers* before = nullptr;  // the replaced ones: kept, see current()
};

void set_up(Loggers& loggers) {
  loggers.sink->set_pattern("%H:%M:%S.%e %^%l%$ %v");
  for (const auto& logger : {loggers.usual, loggers.plain}) {
    logger->set_level(spdlog::level::info);
    logger->set_error_handler([](const std::string&) {});  // its own would write to stderr and wait
  }
}

Loggers* direct_loggers() {
  auto* made = new Loggers{std::make_shared<Sink>(STDERR_FILENO), nullptr, nullptr};
  made->usual = std::make_shared<spdlog::logger>("foretoken", made->sink);
  made->plain = std::make_shared<spdlog::logger>(kPlain, made->sink);
  set_up(*made);
  return made;
}

// All are leaked on purpose: threads that outlive main's statics may still log, and the writer may wait for
// stderr's reader for ever.
std::atomic<Loggers*>& current() {
  static std::atomic<Loggers*> loggers{direct_loggers()};
  return loggers;
}

spdlog::logger& logger() { return *current().load()->usual; }

void write_line(spdlog::level::level_enum level, std::string_view line) {
  logger().log(level, spdlog::string_view_t(printable(line)));
}

}  // namespace

void log_in_background(int fd) {
  using spdlog::async_overflow_policy;
  const auto pool = std::make_shared<spdlog::details::thread_pool>(kWaitingLogLines, 1U);
  auto* made = new Loggers{std::make_shared<Sink>(fd, pool), nullptr, nullptr};
  made->usual = std::make_shared<spdlog::async_logger>("foretoken", made->sink, pool,
                                                       async_overflow_policy::overrun_oldest);
  made->plain =
      std::make_shared<spdlog::async_logger>(kPlain, made->sink, pool, async_overflow_policy::overrun_oldest);
  set_up(*made);
  made->usual->set_level(logger().level());
  made->before = current().load();
  current() = made;
}

bool flush_log(int patience_ms) {
  const Loggers& loggers = *current().load();
  const int flushes = loggers.sink->flushes();
  loggers.usual->flush();
  return loggers.sink->wait_for_flush(flushes, std::chrono::milliseconds(patience_ms));
}

void set_log_level(LogLevel level) { logger().set_level(to_spdlog(level)); }

LogLevel log_level() {
  switch (logger().level()) {
    case spdlog::level::trace:
    case spdlog::level::debug:
      return LogLevel::kDebug;
    case spdlog::level::warn:
      return LogLevel::kWarn;
    case spdlog::level::err:
    case spdlog::level::critical:
      return LogLevel::kError;
    case spdlog::level::off:
      return LogLevel::kOff;
    default:
      return LogLevel::kInfo;
  }
}

void log_debug(std::string_view line) { write_line(spdlog::level::debug, line); }
void log_info(std::string_view line) { write_line(spdlog::level::info, line); }
void log_warn(std::string_view line) { write_line(spdlog::level::warn, line); }
void log_error(std::string_view line) { write_line(spdlog::level::err, line); }

void log_plain(std::string_view line) {
  current().load()->plain->log(spdlog::level::info, spdlog::string_view_t(line.data(), line.size()));
}

}  // namespace ft
