// The packed-weight cache: a file of packed weights as they are in memory, so that the next start maps them.
// It is used only if it was made by this user, from the same state of the source and for the same layout. It
// replaces an older file in one step (rename), so readers see a whole file or none. Checksums cover every
// byte. Layout, little endian:
//   Header
//   checksums  one per piece of kPieceBytes; zeros up to a page (kPackedPageBytes)
//   weights
// Owner: the executable's weights. Thread: the engine's; the pool's workers join it in check(). Cost: open
// reads the header, check every byte; write writes the whole file. Errors: kNotFound if there is
// none, otherwise a sentence that names the file and the problem. Hazard: as with model files,
// truncating it while it is mapped ends the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/options.h"
#include "base/mapped_file.h"
#include "base/result.h"
#include "base/thread_pool.h"

namespace ft {

/// Must be raised when the cpu backend packs the same weight into other bytes (cpu/pack/pack.h,
/// cpu/kernels/kernels.h) or the file's layout changes.
inline constexpr std::uint32_t kPackedFileVersion = 5;
inline constexpr std::int64_t kPieceBytes = 1 << 20;
/// The weights begin at a multiple of it in the file: the largest page of a system that we know (macOS).
inline constexpr std::int64_t kPackedPageBytes = 16 << 10;
/// Zeros after the data, into which cpu's kernels may read ahead. They count as part of its last piece.
inline constexpr std::int64_t kReadAheadBytes = 4096;

/// The properties that a file must match. `source` and `layout` are fingerprints (base/checksum.h).
struct PackedCacheKey {
  std::string path;
  std::string source;
  std::string layout;
  std::int64_t bytes = 0;  // of the weights, including read-ahead

  /// The file of a program's weights, which `layout_text` describes.
  static PackedCacheKey of(const PackedCacheOptions& options, const std::string& layout_text,
                           std::int64_t bytes);
};

class PackedFile {
 public:
  static Result<PackedFile> open(const PackedCacheKey& key);

  PackedFile() = default;
  const std::byte* data() const { return data_.data(); }
  std::int64_t bytes() const { return static_cast<std::int64_t>(data_.size()); }
  int pieces() const { return static_cast<int>(checksums_.size()); }
  bool intact(int piece) const;
  /// All workers compare every piece; kCorrupt with the place of one that is damaged.
  Status check(ThreadPool& pool) const;

 private:
  MappedFile file_;
  std::span<const std::byte> data_;
  std::vector<std::uint64_t> checksums_;  // [pieces]
};

int piece_count(std::int64_t bytes);
std::span<const std::byte> piece_of(std::span<const std::byte> data, int piece);

/// Writes a file from front to back, so that memory for all weights is never needed. Until finish() there is
/// an unfinished file next to it, which the writer removes.
class PackedWriter {
 public:
  /// Reserves the space. kExhausted if the disk is full or another process is writing the same file.
  static Result<PackedWriter> open(const PackedCacheKey& key);
  PackedWriter(PackedWriter&&) noexcept;
  PackedWriter& operator=(PackedWriter&&) noexcept;
  ~PackedWriter();

  Status append(std::span<const std::byte> bytes);
  /// Fills up with zeros to key.bytes; the file exists when it returns.
  Status finish();

 private:
  struct State;
  explicit PackedWriter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace ft
