// A prepared file: packed weights as they stand in memory, so that the next start maps them. Every byte of it
// is under a checksum. Layout, little endian: Header, a checksum a piece of kPieceBytes, zeros up to a page,
// the weights, one page of zeros that kernels may read ahead into (it belongs to the last piece).
// A file counts only if it was made from the same state of the source, for the same layout, by this user; it
// replaces an older one in one step (rename), so readers see a whole file or none. Owner: the executable's
// weights. Thread: open and write from the engine thread, intact() from any worker. Cost: open reads the
// header, intact a piece, write the size of the file. Errors: kNotFound if there is none, else a sentence
// that names the file and what is wrong with it. Hazard: as with model files, who truncates it while it is
// mapped ends the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "base/result.h"

namespace ft::cpu {

/// Raised whenever the same weight would be packed into other bytes (pack.h, kernels.h), or the file changes.
inline constexpr std::uint32_t kPreparedVersion = 2;
inline constexpr std::int64_t kPieceBytes = 1 << 20;
inline constexpr std::int64_t kReadAheadBytes = 4096;

/// What a file must hold. `source` and `layout` are fingerprints (base/checksum.h).
struct PreparedKey {
  std::string path;
  std::string source;
  std::string layout;
  std::int64_t bytes = 0;  // of the weights, read-ahead included
};

class PreparedFile {
 public:
  static Result<PreparedFile> open(const PreparedKey& key);

  PreparedFile() = default;
  const std::byte* data() const { return data_.data(); }
  std::int64_t bytes() const { return static_cast<std::int64_t>(data_.size()); }
  int pieces() const { return static_cast<int>(checksums_.size()); }
  bool intact(int piece) const;

 private:
  MappedFile file_;
  std::span<const std::byte> data_;
  std::vector<std::uint64_t> checksums_;  // [pieces]
};

int piece_count(std::int64_t bytes);
std::span<const std::byte> piece_of(std::span<const std::byte> data, int piece);

/// Writes `data` [key.bytes], whose pieces have these checksums. `progress(bytes)` now and then. kExhausted
/// if the disk is full or another process writes the same file just now.
Status write_prepared(const PreparedKey& key, std::span<const std::byte> data,
                      std::span<const std::uint64_t> checksums,
                      const std::function<void(std::int64_t)>& progress);

}  // namespace ft::cpu
