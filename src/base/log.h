// The log: one line per event on stderr, for people who run the program. Only log.cpp uses spdlog. Thread:
// any. Cost: a level check when the level is off. A line that cannot be written is dropped. A library floor
// logs only warnings that a Result cannot carry (a file that was odd but readable); it never logs an Error
// that it also returns.
#pragma once

#include <cstddef>
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
/// The line alone, without time or level, at every level.
void log_plain(std::string_view line);

/// Lines that may wait for the writer; one more drops the oldest.
inline constexpr std::size_t kWaitingLogLines = 4096;

/// From now on a separate thread writes the lines to `fd`: logging never blocks on a slow stderr. The number
/// of dropped lines is logged when stderr is read again. For a server, before its threads log.
void log_in_background(int fd = 2);

/// Waits until every line logged before is written. False if they were not read in time.
bool flush_log(int patience_ms);

}  // namespace ft
