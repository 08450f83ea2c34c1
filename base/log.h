// The log: one line per event on stderr, for people who run the program. Only log.cpp uses spdlog. Thread:
// any. Cost: a level check when the level is off. A line that cannot be written is dropped. A library floor
// logs only what the caller cannot see in a Result (a warning about a file that was still readable); it never
// logs what it also returns as an Error.
#pragma once

#include <string_view>

namespace ft {

enum class LogLevel { kDebug, kInfo, kWarn, kError, kOff };

/// Lines below `level` are dropped. Default: kInfo.
void set_log_level(LogLevel level);
LogLevel log_level();

void log_debug(std::string_view line);
void log_info(std::string_view line);
void log_warn(std::string_view line);
void log_error(std::string_view line);

}  // namespace ft
