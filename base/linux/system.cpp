#include "base/system.h"

#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ft {
namespace {

constexpr const char* kSelf = "/proc/self/exe";

}  // namespace

bool open_pipe(int (&ends)[2]) { return ::pipe2(ends, O_CLOEXEC) == 0; }

int reserve_space(int file, std::int64_t bytes) {
  if (bytes <= 0) return 0;
  return ::fallocate(file, 0, 0, static_cast<off_t>(bytes)) == 0 ? 0 : errno;
}

std::int64_t modified_ns(const struct stat& facts) {
  return std::int64_t{facts.st_mtim.tv_sec} * 1'000'000'000 + facts.st_mtim.tv_nsec;
}

void give_back_pages(std::byte* pages, std::size_t bytes) { ::madvise(pages, bytes, MADV_DONTNEED); }

bool has_hung_up(int socket) {
  pollfd poll{socket, POLLRDHUP, 0};
  return ::poll(&poll, 1, 0) > 0 && (poll.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

std::string program_path() {
  std::error_code failed;
  const std::filesystem::path path = std::filesystem::read_symlink(kSelf, failed);
  return failed ? std::string() : path.string();
}

std::string program_file() { return kSelf; }

void pin_to_core(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(core), &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

void prefer_speed() {}

}  // namespace ft
