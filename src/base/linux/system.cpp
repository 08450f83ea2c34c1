#include "base/system.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sstream>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ft {
namespace {

constexpr const char* kSelf = "/proc/self/exe";

}  // namespace

bool open_pipe(int (&ends)[2]) { return ::pipe2(ends, O_CLOEXEC) == 0; }

int open_socket(int family, int type, int protocol) {
  return ::socket(family, type | SOCK_CLOEXEC, protocol);
}

int reserve_space(int file, std::int64_t bytes) {
  if (bytes <= 0) return 0;
  return ::fallocate(file, 0, 0, static_cast<off_t>(bytes)) == 0 ? 0 : errno;
}

std::int64_t modified_ns(const struct stat& facts) {
  return std::int64_t{facts.st_mtim.tv_sec} * 1'000'000'000 + facts.st_mtim.tv_nsec;
}

void return_pages(std::byte* pages, std::size_t bytes) { ::madvise(pages, bytes, MADV_DONTNEED); }

void read_ahead(const std::byte* mapped, std::size_t bytes) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(mapped), first = begin / page * page;
  ::madvise(reinterpret_cast<void*>(first), bytes + (begin - first), MADV_WILLNEED);
}

void begin_writeback(int file, std::int64_t offset, std::int64_t bytes) {
  ::sync_file_range(file, offset, bytes, SYNC_FILE_RANGE_WRITE);
}

bool has_hung_up(int socket) {
  pollfd poll{socket, POLLRDHUP, 0};
  return ::poll(&poll, 1, 0) > 0 && (poll.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

std::string program_path() {
  std::error_code failed;
  std::filesystem::path path = std::filesystem::read_symlink(kSelf, failed);
  if (!failed) return path.string();
  // Without /proc: the name that the kernel received at the start, which may be relative.
  const auto* given = reinterpret_cast<const char*>(::getauxval(AT_EXECFN));
  if (given == nullptr) return {};
  path = std::filesystem::canonical(given, failed);
  return failed ? std::string() : path.string();
}

std::string program_file() { return ::access(kSelf, R_OK) == 0 ? kSelf : program_path(); }

std::int64_t process_start(int process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const std::size_t name_end = text.rfind(')');  // the name may hold anything
  if (name_end == std::string::npos) return 0;
  constexpr int kState = 1, kStart = 20;  // fields after the name, from 1
  std::istringstream fields(text.substr(name_end + 1));
  std::string field;
  for (int i = 1; i <= kStart && fields >> field; ++i) {
    if (i == kState && (field == "Z" || field == "X")) return 0;  // it has ended and waits for its parent
  }
  return fields ? std::strtoll(field.c_str(), nullptr, 10) : 0;
}

std::int64_t waits_for_files() {
  rusage used{};
  return ::getrusage(RUSAGE_THREAD, &used) == 0 ? used.ru_majflt : 0;
}

// proc_pid_schedstat: time on a core, time in a queue for one, turns.
std::int64_t waited_for_cores_ns() {
  std::ifstream file("/proc/thread-self/schedstat");
  std::int64_t ran = 0, waited = 0;
  return file >> ran >> waited ? waited : 0;
}

void pin_to_core(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(core), &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

StayOnCore::StayOnCore(int core) {
  static_assert(sizeof before_ == sizeof(cpu_set_t));
  cpu_set_t before;
  if (core < 0 || sched_getaffinity(0, sizeof before, &before) != 0) return;
  std::memcpy(before_.data(), &before, sizeof before);
  pin_to_core(core);
  stays_ = true;
}

StayOnCore::~StayOnCore() {
  if (!stays_) return;
  cpu_set_t before;
  std::memcpy(&before, before_.data(), sizeof before);
  sched_setaffinity(0, sizeof before, &before);
}

void prefer_speed() {}

void yield_to_others() {
  constexpr int kBelow = 5, kLowest = 19;  // 5: about a quarter of a core that another thread wants
  // The process may have another priority, as by nice. On Linux, 0 means this thread, not the whole process.
  const int now = ::getpriority(PRIO_PROCESS, 0);
  (void)::setpriority(PRIO_PROCESS, 0, std::min(now + kBelow, kLowest));
}

}  // namespace ft
