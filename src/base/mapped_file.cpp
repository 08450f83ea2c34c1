#include "base/mapped_file.h"

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "base/system.h"

namespace ft {
namespace {

std::atomic<FileFaultHook> fault_hook{nullptr};

int injected_fault(FileStep step, const std::string& path) {
  const FileFaultHook hook = fault_hook.load(std::memory_order_relaxed);
  return hook == nullptr ? 0 : hook(step, path.c_str());
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

Error system_error(const std::string& path, const char* task, int number) {
  const char* next = "check the disk and the file's permissions";
  Code code = Code::kIo;
  if (number == ENOENT || number == ENOTDIR) {
    code = Code::kNotFound;
    next = "check the path, or download the model again";
  } else if (number == EACCES || number == EPERM) {
    next = "give this user read permission on it";
  } else if (number == ENOMEM || number == EMFILE || number == ENFILE) {
    code = Code::kExhausted;
    next = "close other programs or raise the limit (ulimit -n, ulimit -v)";
  }
  return Error{code, path + ": cannot " + task + ": " + std::strerror(number) + "; " + next};
}

}  // namespace

void set_file_fault_hook_for_tests(FileFaultHook hook) { fault_hook.store(hook); }

Result<MappedFile> MappedFile::open(const std::string& path) {
  MappedFile file;
  file.path_ = path;
  int fault = injected_fault(FileStep::kOpen, path);
  // O_NONBLOCK: opening a named pipe must not wait for a writer; it has no effect on regular files.
  const Descriptor fd(fault != 0 ? -1 : ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd.get() < 0) return system_error(path, "open", fault != 0 ? fault : errno);

  struct stat info{};
  fault = injected_fault(FileStep::kStat, path);
  if (fault != 0 || ::fstat(fd.get(), &info) != 0) {
    return system_error(path, "read its size", fault != 0 ? fault : errno);
  }
  if (!S_ISREG(info.st_mode)) {
    const char* found = S_ISDIR(info.st_mode) ? "a directory" : "a device, pipe or socket";
    return Error{Code::kInvalid,
                 path + ": expected a regular file, found " + found + "; give the path of the file itself"};
  }
  file.modified_ns_ = ft::modified_ns(info);
  if (info.st_size == 0) return file;

  const auto size = static_cast<std::size_t>(info.st_size);
  fault = injected_fault(FileStep::kMap, path);
  void* data = fault != 0 ? MAP_FAILED : ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (data == MAP_FAILED) return system_error(path, "map", fault != 0 ? fault : errno);
  file.data_ = static_cast<const std::byte*>(data);
  file.size_ = size;
  return file;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      modified_ns_(other.modified_ns_),
      path_(std::move(other.path_)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(modified_ns_, other.modified_ns_);
  std::swap(path_, other.path_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

// This is advice only: a kernel that refuses it changes no bytes, so its answer is ignored.
void MappedFile::advise_sequential() const {
  if (data_ != nullptr) ::madvise(const_cast<std::byte*>(data_), size_, MADV_SEQUENTIAL);
}

void MappedFile::drop_pages(std::size_t offset, std::size_t length) const {
  if (data_ == nullptr || offset >= size_) return;
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t end = length > size_ - offset ? size_ : offset + length;
  const std::size_t first = (offset + page - 1) / page * page;
  const std::size_t last = end == size_ ? end : end / page * page;
  if (first >= last) return;
  ::madvise(const_cast<std::byte*>(data_) + first, last - first, MADV_DONTNEED);
}

}  // namespace ft
