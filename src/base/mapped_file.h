// MappedFile: a whole regular file, mapped read-only. Every weight and every config enters the process
// through it. Owner: the object; spans from bytes() die with it, and a move keeps them. Cost: open, fstat,
// mmap; pages are read on first touch. Errors: kNotFound, kIo, kInvalid (not a regular file). Hazard: sizes
// are checked at open. A file that is truncated while it is mapped raises SIGBUS on the next touch of a lost
// page. Nothing here can turn it into an Error. Replace model files by rename, never in place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"

namespace ft {

class MappedFile {
 public:
  /// Follows symbolic links, because download caches are made of them. Refuses directories, pipes and
  /// devices.
  static Result<MappedFile> open(const std::string& path);

  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }
  /// Time of the last write, as the file system reported it at open: nanoseconds since 1970.
  std::int64_t modified_ns() const { return modified_ns_; }

  /// Advises the kernel that the file will be read once from front to back.
  void advise_sequential() const;
  /// Releases the whole pages inside [offset, offset + length). They stay readable; the next touch reads them
  /// again.
  void drop_pages(std::size_t offset, std::size_t length) const;

 private:
  const std::byte* data_ = nullptr;  // (size_), nullptr when the file is empty
  std::size_t size_ = 0;             // bytes
  std::int64_t modified_ns_ = 0;
  std::string path_;
};

/// The system calls of open(), in order, for tests that make one of them fail.
enum class FileStep { kOpen, kStat, kMap };

/// For tests: the hook runs before each step, and the step fails with the errno that it returns, if not 0.
/// nullptr removes the hook. Process-wide.
using FileFaultHook = int (*)(FileStep step, const char* path);
void set_file_fault_hook_for_tests(FileFaultHook hook);

}  // namespace ft
