#include "prefix_cache/cache_store.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ft {

Error cache_error(const char* task, int number) {
  const bool full = number == ENOSPC || number == EDQUOT || number == EFBIG || number == ENOMEM;
  return Error{full ? Code::kExhausted : Code::kIo,
               fmt::format("cannot {} it: {}", task, std::strerror(number))};
}

namespace {

Error damaged(std::string why) { return Error{Code::kCorrupt, std::move(why)}; }

// ---- a folder

class DiskBytes final : public CacheBytes {
 public:
  DiskBytes(int fd, std::int64_t size) : fd_(fd), size_(size) {}
  ~DiskBytes() override { ::close(fd_); }
  DiskBytes(const DiskBytes&) = delete;
  DiskBytes& operator=(const DiskBytes&) = delete;

  int write_at(std::span<const std::byte> bytes, std::int64_t offset) override {
    rlimit limit{};
    const auto end = static_cast<std::uint64_t>(offset) + bytes.size();
    // Growing beyond this limit would end the process (SIGXFSZ).
    if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && end > limit.rlim_cur) return EFBIG;
    while (!bytes.empty()) {
      const ssize_t written = ::pwrite(fd_, bytes.data(), bytes.size(), offset);
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return written < 0 ? errno : ENOSPC;
      bytes = bytes.subspan(static_cast<std::size_t>(written));
      offset += written;
    }
    size_ = std::max(size_, static_cast<std::int64_t>(end));
    return 0;
  }
  Status read_at(std::span<std::byte> out, std::int64_t offset) const override {
    while (!out.empty()) {
      const ssize_t got = ::pread(fd_, out.data(), out.size(), offset);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return cache_error("read", errno);
      if (got == 0) return damaged("it is cut off");
      out = out.subspan(static_cast<std::size_t>(got));
      offset += got;
    }
    return {};
  }
  std::int64_t size() const override { return size_; }
  int sync() override { return ::fsync(fd_) == 0 ? 0 : errno; }

 private:
  const int fd_;
  std::int64_t size_;
};

// ---- memory

/// Chunks on separate pages, so that the system gets a file's memory back when the file is removed.
class MemoryBytes final : public CacheBytes {
 public:
  MemoryBytes() = default;
  ~MemoryBytes() override {
    for (std::byte* chunk : chunks_) ::munmap(chunk, kChunk);
  }
  MemoryBytes(const MemoryBytes&) = delete;
  MemoryBytes& operator=(const MemoryBytes&) = delete;

  int write_at(std::span<const std::byte> bytes, std::int64_t offset) override {
    const auto end = static_cast<std::size_t>(offset) + bytes.size();
    while (chunks_.size() * kChunk < end) {
      chunks_.reserve(chunks_.size() + 1);
      void* chunk = ::mmap(nullptr, kChunk, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (chunk == MAP_FAILED) return ENOMEM;
      chunks_.push_back(static_cast<std::byte*>(chunk));
    }
    for (auto at = static_cast<std::size_t>(offset); !bytes.empty();) {
      const std::size_t part = std::min(bytes.size(), kChunk - at % kChunk);
      std::memcpy(chunks_[at / kChunk] + at % kChunk, bytes.data(), part);
      bytes = bytes.subspan(part);
      at += part;
    }
    size_ = std::max(size_, end);
    return 0;
  }
  Status read_at(std::span<std::byte> out, std::int64_t offset) const override {
    auto at = static_cast<std::size_t>(offset);
    if (at + out.size() > size_) return damaged("it is cut off");
    while (!out.empty()) {
      const std::size_t part = std::min(out.size(), kChunk - at % kChunk);
      std::memcpy(out.data(), chunks_[at / kChunk] + at % kChunk, part);
      out = out.subspan(part);
      at += part;
    }
    return {};
  }
  std::int64_t size() const override { return static_cast<std::int64_t>(size_); }

 private:
  static constexpr std::size_t kChunk = 1 << 20;
  std::vector<std::byte*> chunks_;
  std::size_t size_ = 0;
};

}  // namespace

Result<std::shared_ptr<CacheBytes>> DiskStore::create(const std::string& name) {
  const int fd =
      ::open((path(name) + kPart).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return cache_error("write", errno);
  return std::shared_ptr<CacheBytes>(std::make_shared<DiskBytes>(fd, 0));
}

Status DiskStore::publish(const std::string& name, const std::shared_ptr<CacheBytes>&) {
  std::error_code failed;
  std::filesystem::rename(path(name) + kPart, path(name), failed);
  if (!failed) return {};
  discard(name);
  return Error{Code::kIo, failed.message()};
}

void DiskStore::discard(const std::string& name) { ::unlink((path(name) + kPart).c_str()); }

Result<std::shared_ptr<CacheBytes>> DiskStore::open(const std::string& name) {
  // Do not follow links, and do not wait for a pipe's writer.
  const int fd = ::open(path(name).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0 && errno == ENOENT) return Error{Code::kNotFound, "it is gone"};
  if (fd < 0) return cache_error("open", errno);
  return take(fd);
}

Result<std::shared_ptr<CacheBytes>> DiskStore::take(int fd) {
  struct stat info{};
  const bool known = ::fstat(fd, &info) == 0;
  const int number = errno;
  auto bytes = std::make_shared<DiskBytes>(fd, info.st_size);
  if (!known) return cache_error("look at", number);
  if (!S_ISREG(info.st_mode)) return damaged("it is not a regular file");
  // This data decides answers, so it must have been written by this user or root.
  if (info.st_uid != ::geteuid() && info.st_uid != 0) return damaged("it belongs to another user");
  return std::shared_ptr<CacheBytes>(std::move(bytes));
}

void DiskStore::remove(const std::string& name) { ::unlink(path(name).c_str()); }

void DiskStore::touch(const std::string& name) {
  ::utimensat(AT_FDCWD, path(name).c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
}

Result<std::shared_ptr<CacheBytes>> MemoryStore::create(const std::string&) {
  return std::shared_ptr<CacheBytes>(std::make_shared<MemoryBytes>());
}

Status MemoryStore::publish(const std::string& name, const std::shared_ptr<CacheBytes>& bytes) {
  const std::lock_guard lock(mutex_);
  files_[name] = bytes;
  return {};
}

Result<std::shared_ptr<CacheBytes>> MemoryStore::open(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto at = files_.find(name);
  if (at == files_.end()) return Error{Code::kNotFound, "it is gone"};
  return at->second;
}

void MemoryStore::remove(const std::string& name) {
  const std::lock_guard lock(mutex_);
  files_.erase(name);
}

}  // namespace ft
