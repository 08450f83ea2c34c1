// System calls that differ between operating systems: one contract, with a source for Linux (base/linux) and
// one for macOS (base/macos). Callers have no `#ifdef`. Thread: any. Errors: see each function.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

struct stat;  // NOLINT(readability-identifier-naming): named by the system

namespace ft {

/// A pipe whose ends no child process inherits: ends[0] reads, ends[1] writes. False: errno says why.
bool open_pipe(int (&ends)[2]);

/// socket() whose result no child process inherits. -1: errno says why.
int open_socket(int family, int type, int protocol);

/// Reserves room for the first `bytes` of an open file, so that a full disk is noticed before the writing.
/// Returns 0 or the errno. A file system that cannot reserve gives an errno other than ENOSPC, EDQUOT and
/// EFBIG. The file's length may grow to `bytes`.
int reserve_space(int file, std::int64_t bytes);

/// When a file's content changed last, nanoseconds since 1970.
std::int64_t modified_ns(const struct stat& facts);

/// Returns whole private anonymous pages to the system. They read as zeros afterwards.
void return_pages(std::byte* pages, std::size_t bytes);

/// Lets the system read ahead mapped bytes of a file that are needed soon. Does not wait.
void read_ahead(const std::byte* mapped, std::size_t bytes);
/// Lets the system begin to write these bytes of an open file to the disk, so that a later fsync waits less.
/// macOS has no such call.
void begin_writeback(int file, std::int64_t offset, std::int64_t bytes);

/// Whether the other side of a connected socket has sent its last byte, even if bytes still wait to be read.
bool has_hung_up(int socket);

/// The absolute path of the running program; empty if unknown.
std::string program_path();
/// A path that opens the running program's own bytes; where the system allows it, even after another file has
/// taken its name.
std::string program_file();

/// When a process started, in the system's own unit. Together with the process number it identifies one
/// process for ever. 0: there is no such process.
std::int64_t process_start(int process);

/// How often the calling thread has waited for bytes of a mapped file; 0 on macOS, which does not count it.
std::int64_t waits_for_files();
/// How long the calling thread was ready to run without a core, nanoseconds since its start; 0 if the system
/// does not say. Cost: reads a file of the system.
std::int64_t waited_for_cores_ns();

/// Keeps the calling thread on one core; a refusal costs speed only. macOS has no such call.
void pin_to_core(int core);
/// While it lives, the thread that made it stays on `core`; afterwards it may run where it could before. A
/// refusal costs speed only; macOS has no such call. Below 0: does nothing.
class StayOnCore {
 public:
  explicit StayOnCore(int core);
  ~StayOnCore();
  StayOnCore(const StayOnCore&) = delete;
  StayOnCore& operator=(const StayOnCore&) = delete;

 private:
  [[maybe_unused]] std::array<std::uint64_t, 16> before_{};  // the cores it may use otherwise, a bit each
  [[maybe_unused]] bool stays_ = false;
};
/// Marks the calling thread as interactive: macOS then prefers performance cores.
void prefer_speed();

/// If cores are scarce, the calling thread and the threads that it starts leave most of the time to others. A
/// refusal is ignored.
void yield_to_others();

}  // namespace ft
