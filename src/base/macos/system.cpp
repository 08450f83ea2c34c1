// Compiled for macOS on Linux (tools/check --only mac); it has not run on a Mac yet.
#include "base/system.h"

#include <cerrno>
#include <cstdint>
#include <fcntl.h>
#include <filesystem>
#include <mach-o/dyld.h>
#include <pthread/qos.h>
#include <sys/event.h>
#include <sys/mman.h>
#include <sys/proc.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysctl.h>
#include <unistd.h>

namespace ft {

// macOS has no pipe2: a child that another thread starts between the two calls could inherit the ends.
bool open_pipe(int (&ends)[2]) {
  if (::pipe(ends) != 0) return false;
  for (const int end : ends) ::fcntl(end, F_SETFD, FD_CLOEXEC);
  return true;
}

int open_socket(int family, int type, int protocol) {
  const int made = ::socket(family, type, protocol);
  if (made >= 0) ::fcntl(made, F_SETFD, FD_CLOEXEC);
  return made;
}

// F_PREALLOCATE takes the blocks, and ftruncate makes them a part of the file.
int reserve_space(int file, std::int64_t bytes) {
  if (bytes <= 0) return 0;
  struct stat facts{};
  if (::fstat(file, &facts) != 0) return errno;
  if (bytes <= facts.st_size) return 0;
  fstore_t store{};
  store.fst_flags = F_ALLOCATEALL;
  store.fst_posmode = F_PEOFPOSMODE;
  store.fst_length = static_cast<off_t>(bytes) - facts.st_size;
  if (::fcntl(file, F_PREALLOCATE, &store) != 0) return errno;
  return ::ftruncate(file, static_cast<off_t>(bytes)) == 0 ? 0 : errno;
}

std::int64_t modified_ns(const struct stat& facts) {
  return std::int64_t{facts.st_mtimespec.tv_sec} * 1'000'000'000 + facts.st_mtimespec.tv_nsec;
}

// MADV_DONTNEED keeps the bytes here; a new mapping in their place has none.
void return_pages(std::byte* pages, std::size_t bytes) {
  ::mmap(pages, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON | MAP_FIXED, -1, 0);
}

void read_ahead(const std::byte* mapped, std::size_t bytes) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(mapped), first = begin / page * page;
  ::madvise(reinterpret_cast<void*>(first), bytes + (begin - first), MADV_WILLNEED);
}

void begin_writeback(int, std::int64_t, std::int64_t) {}

// A kqueue marks a socket whose other side is closed; poll() reports that only once nothing waits to be read.
bool has_hung_up(int socket) {
  const int queue = ::kqueue();
  if (queue < 0) return false;
  struct kevent wanted{}, found{};
  EV_SET(&wanted, socket, EVFILT_READ, EV_ADD | EV_ONESHOT, 0, 0, nullptr);
  const timespec now{};
  const int events = ::kevent(queue, &wanted, 1, &found, 1, &now);
  ::close(queue);
  return events > 0 && (found.flags & (EV_EOF | EV_ERROR)) != 0;
}

std::string program_path() {
  std::uint32_t size = 0;
  _NSGetExecutablePath(nullptr, &size);
  std::string path(size, '\0');
  if (_NSGetExecutablePath(path.data(), &size) != 0) return {};
  std::error_code ignored;
  const std::filesystem::path resolved = std::filesystem::canonical(path.c_str(), ignored);
  return ignored ? std::string(path.c_str()) : resolved.string();
}

std::string program_file() { return program_path(); }

std::int64_t process_start(int process) {
  int name[] = {CTL_KERN, KERN_PROC, KERN_PROC_PID, process};
  kinfo_proc found{};
  std::size_t size = sizeof found;
  if (::sysctl(name, 4, &found, &size, nullptr, 0) != 0 || size == 0) return 0;
  if (found.kp_proc.p_stat == SZOMB) return 0;
  const timeval& start = found.kp_proc.p_starttime;
  return std::int64_t{start.tv_sec} * 1'000'000 + start.tv_usec;
}

std::int64_t waits_for_files() { return 0; }

std::int64_t waited_for_cores_ns() { return 0; }

void pin_to_core(int core) { static_cast<void>(core); }

StayOnCore::StayOnCore(int core) { pin_to_core(core); }
StayOnCore::~StayOnCore() = default;

void prefer_speed() { ::pthread_set_qos_class_self_np(QOS_CLASS_USER_INITIATED, 0); }

void yield_to_others() { ::pthread_set_qos_class_self_np(QOS_CLASS_UTILITY, 0); }

}  // namespace ft
