// MappedFile: a whole regular file, mapped read-only; the way every weight and every config enters the
// process. Owner: whoever holds it; spans taken from bytes() die with it (a move keeps them). Threads: const
// use from any. Cost: open, fstat, mmap; pages are read on first touch. Errors: kNotFound, kIo, kInvalid (not
// a regular file). Hazard: sizes are checked at open. A file that is truncated while it is mapped raises
// SIGBUS on the next touch of a lost page; nothing here can turn that into an Error. Replace model files by
// rename, never in place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"

namespace ft {

class MappedFile {
 public:
  /// Symbolic links are followed (download caches are made of them); directories, pipes and devices are
  /// refused.
  static Result<MappedFile> open(const std::string& path);

  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }
  /// When it was written last, as the file system said at open: nanoseconds since 1970.
  std::int64_t modified_ns() const { return modified_ns_; }

  /// Tells the kernel that the file will be read once from front to back.
  void advise_sequential() const;
  /// Gives back the whole pages inside [offset, offset + length): they stay readable and are read again if
  /// touched.
  void drop_pages(std::size_t offset, std::size_t length) const;

 private:
  const std::byte* data_ = nullptr;  // (size_), nullptr when the file is empty
  std::size_t size_ = 0;             // bytes
  std::int64_t modified_ns_ = 0;
  std::string path_;
};

/// The system calls of open(), in order, as a test may make them fail.
enum class FileStep { kOpen, kStat, kMap };

/// For tests: before each step the hook is asked; a non-zero answer is the errno that the step then fails
/// with. nullptr removes it. Process-wide.
using FileFaultHook = int (*)(FileStep step, const char* path);
void set_file_fault_hook_for_tests(FileFaultHook hook);

}  // namespace ft
