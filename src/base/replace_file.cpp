#include "base/replace_file.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

namespace ft {
namespace {

Status failed(const std::string& path, const char* task) {
  return Error{Code::kIo, fmt::format("{}: cannot {}: {}", path, task, std::strerror(errno))};
}

bool write_all(int fd, std::string_view content) {
  while (!content.empty()) {
    const ssize_t written = ::write(fd, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    content.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace

Status replace_file(const std::string& path, std::string_view content) {
  std::error_code failure;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), failure);
  if (failure) {
    return Error{Code::kIo, fmt::format("{}: its folder cannot be created: {}", path, failure.message())};
  }
  rlimit limit{};
  // Growing beyond the limit would end the process (SIGXFSZ).
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && content.size() > limit.rlim_cur) {
    errno = EFBIG;
    return failed(path, "write it");
  }
  std::string part = path + ".XXXXXX";
  const int fd = ::mkostemp(part.data(), O_CLOEXEC);
  if (fd < 0) return failed(path, "create it");
  Status status = write_all(fd, content) ? Status() : failed(path, "write it");
  ::close(fd);
  if (status.ok() && ::rename(part.c_str(), path.c_str()) != 0) status = failed(path, "rename it");
  if (!status.ok()) ::unlink(part.c_str());
  return status;
}

}  // namespace ft
