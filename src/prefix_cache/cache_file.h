// One file of a tier of the prefix cache (prefix_cache/cache_tier.h), with a snapshot or with rows that
// several share: a header that can be checked alone, a body in pieces, and a checksum for each (XXH3).
// Checksums cover every byte, so reading detects a file that is torn, cut, altered or of another program.
// Layout, in the machine's own byte order:
//   header  kHeadBytes: magic, version, identity, size of the body, the lengths that the snapshot can
//           continue from, a hash of the tokens in the whole blocks before them, the tokens after, the owner,
//           the number of shared files; a checksum of all this
//   body    the bytes that the tier writes, cut into pieces of kPieceBytes
//   shared  the names of the files of shared rows that belong to the snapshot, 32 digits each, and a checksum
//   sums    one checksum per piece, then one over the header's and these
// Cost: one piece of memory; writing waits for the disk (fsync). Errors: kNotFound, kIo, kExhausted (full
// disk), kUnsupported (another identity or version), kCorrupt, kBusy (a deadline). Their sentences leave out
// the file's name, because the caller knows it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/byte_stream.h"
#include "base/result.h"
#include "prefix_cache/cache_store.h"
#include "program/backend.h"

namespace ft {

/// Must be raised when the file's layout changes.
inline constexpr std::uint32_t kCacheFileVersion = 4;

/// Which prompts a snapshot serves, without all of its tokens: prompts that begin with the whole blocks
/// hashed in `before`, continue with the tail's first tokens, and share at least `low` tokens altogether.
struct CachePlace {
  static constexpr std::int64_t kTailTokens = 2 * kBlockRows;

  std::int64_t low = 0, high = 0;  // 1 <= low <= high
  std::int64_t depth = 0;          // tokens before the tail, in whole blocks; depth <= low
  std::uint64_t before = 0;
  std::vector<std::int32_t> tail;  // tokens [depth, high), at most kTailTokens
  bool drafts = false;             // it has the drafter's memory
  std::uint64_t owner = 0;         // of the snapshot (prefix_cache/cache_owner.h)

  /// The place of a snapshot of these tokens that can continue from `low` on; `low` is raised if the tail is
  /// too short for all.
  static CachePlace of(std::span<const std::int32_t> tokens, std::int64_t low, bool drafts);
  /// The hash after one more block.
  static std::uint64_t next(std::uint64_t before, std::span<const std::int32_t> block);
};

/// Writes a file under a temporary name and publishes it.
class CacheFileWriter final : public ByteSink {
 public:
  /// Writes at most `most_bytes`. Stops when `stop` becomes true.
  CacheFileWriter(CacheStore& store, std::string name, std::int64_t most_bytes,
                  const std::atomic<bool>& stop);
  ~CacheFileWriter() override;  // removes an unfinished file
  CacheFileWriter(const CacheFileWriter&) = delete;
  CacheFileWriter& operator=(const CacheFileWriter&) = delete;

  bool put(std::span<const std::byte> bytes) override;
  /// Returns the file's size once it is published. `shared`: names of kFingerprintDigits.
  Result<std::int64_t> finish(const CachePlace& place, const std::string& identity,
                              std::span<const std::string> shared = {});

 private:
  bool write(std::span<const std::byte> bytes, std::int64_t offset);
  bool end_piece();

  CacheStore& store_;
  const std::string name_;
  const std::int64_t most_bytes_;
  const std::atomic<bool>& stop_;
  std::shared_ptr<CacheBytes> bytes_;  // null: it could not be made
  Error unmade_{Code::kIo, ""};
  int failure_ = 0;  // errno
  std::int64_t body_bytes_ = 0;
  std::vector<std::byte> piece_;
  std::vector<std::uint64_t> sums_;
  bool finished_ = false;
};

class CacheFileReader final : public ByteSource {
 public:
  /// Reads and checks the header and the list of shared files. kUnsupported if the file is whole but has
  /// another identity.
  static Result<CacheFileReader> open(std::shared_ptr<CacheBytes> bytes, const std::string& identity);
  static Result<CacheFileReader> open(CacheStore& store, const std::string& name,
                                      const std::string& identity);

  const CachePlace& place() const { return place_; }
  /// Names of the files of rows that it shares with others.
  const std::vector<std::string>& shared() const { return shared_; }
  std::int64_t bytes() const { return bytes_; }

  /// Reads the checksums; then get() returns the body. No piece is read after the deadline (steady_ns()).
  Status begin(std::int64_t deadline_ns);
  bool get(std::span<std::byte> out) override;
  std::int64_t left() const override { return body_bytes_ - given_; }
  /// Why get() returned false.
  const Error& error() const { return error_; }

 private:
  explicit CacheFileReader(std::shared_ptr<CacheBytes> bytes) : file_(std::move(bytes)) {}
  Status read_head(const std::string& identity);
  Status read_shared(std::int64_t count);
  bool next_piece();
  bool fail(Code code, std::string why);

  std::shared_ptr<CacheBytes> file_;
  CachePlace place_;
  std::vector<std::string> shared_;
  std::uint64_t head_sum_ = 0;
  std::int64_t bytes_ = 0, sums_at_ = 0, body_bytes_ = 0, given_ = 0, deadline_ns_ = 0;
  std::vector<std::uint64_t> sums_;
  std::vector<std::byte> piece_;
  std::size_t at_ = 0;  // offset in piece_
  Error error_{Code::kCorrupt, ""};
  bool failed_ = false;
};

}  // namespace ft
