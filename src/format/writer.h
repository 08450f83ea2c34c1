// SafetensorsWriter: makes a safetensors file that is either whole or absent. It writes the header, then
// tensors in any order, into FILE.part; finish() renames FILE.part to FILE. It serves conversion and
// synthetic checkpoints. Owner: dropping an unfinished writer removes FILE.part. Cost: one pwrite per call;
// disk space is reserved at the start, so a full disk is found then. Errors: kInvalid (tensor list, unknown
// name, bytes beyond the end, tensors not written), kExhausted (disk full, file size limit), kIo.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "format/tensor.h"

namespace ft::format {

struct TensorSpec {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;
};

class SafetensorsWriter {
 public:
  /// Tensors are laid out by element size, largest first, so each begins at a multiple of its element's size.
  static Result<SafetensorsWriter> create(const std::string& path, const std::vector<TensorSpec>& tensors,
                                          const std::map<std::string, std::string>& metadata);

  SafetensorsWriter(SafetensorsWriter&& other) noexcept;
  SafetensorsWriter& operator=(SafetensorsWriter&&) = delete;
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;
  ~SafetensorsWriter();

  /// Some or all bytes of a tensor, from its byte `offset` on. Each byte must be written exactly once.
  /// Several threads may call it at once; long pieces are on their way to the disk when it returns.
  Status write(std::string_view name, std::span<const std::byte> bytes, std::uint64_t offset = 0);
  /// Call it after all writes: flushes, closes and renames the file.
  Status finish();

 private:
  struct Place {
    std::uint64_t begin = 0;    // in the file
    std::uint64_t size = 0;     // bytes
    std::uint64_t written = 0;  // bytes
  };

  SafetensorsWriter() = default;
  static Result<SafetensorsWriter> begin(const std::string& path, const std::vector<TensorSpec>& tensors,
                                         const std::map<std::string, std::string>& metadata);
  Status write_at(std::uint64_t position, std::span<const std::byte> bytes);
  Error system_error(const char* task, int number) const;
  std::string part() const { return path_ + ".part"; }

  std::string path_;
  int fd_ = -1;
  std::uint64_t size_ = 0;  // bytes of the whole file
  std::map<std::string, Place, std::less<>> places_;
};

}  // namespace ft::format
