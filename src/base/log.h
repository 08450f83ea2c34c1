// The log: one line per event on stderr, for people who run the program. Only log.cpp uses spdlog. Thread:
// any. Cost: a level check when the level is off. A line that cannot be written is dropped. A library floor
// logs only what the caller cannot see in a Result (a warning about a file that was still readable); it never
// logs what it also returns as an Error.
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

/// From now on a thread of its own writes the lines, to `fd`: whoever logs never waits for stderr's reader.
/// How many lines were dropped is said once it reads again. For a server, before its threads log.
void log_in_background(int fd = 2);

/// Waits until every line logged so far is written. False if nobody read them for so long.
bool flush_log(int patience_ms);

}  // namespace ft
