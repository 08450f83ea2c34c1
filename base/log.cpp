#include "base/log.h"

#include <memory>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

namespace ft {
namespace {

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

// Leaked on purpose: threads that outlive main's statics may still log.
spdlog::logger& logger() {
  static spdlog::logger* const kLogger = [] {
    auto* made = new spdlog::logger("foretoken", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%H:%M:%S.%e %^%l%$ %v");
    made->set_level(spdlog::level::info);
    made->flush_on(spdlog::level::info);
    return made;
  }();
  return *kLogger;
}

void write_line(spdlog::level::level_enum level, std::string_view line) {
  logger().log(level, spdlog::string_view_t(line.data(), line.size()));
}

}  // namespace

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

}  // namespace ft
