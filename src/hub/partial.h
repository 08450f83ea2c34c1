// A file that is being fetched: blobs/ETAG.foretoken.incomplete. Its size is set at once, and its bytes
// arrive in pieces in any order. After the file's own bytes come two copies of a journal: how far each piece
// is on disk. The newest whole copy decides after a crash. The order is data, fdatasync, journal. So a
// process that is killed at any moment loses only what came after the last save(). Never huggingface_hub's
// own name ETAG.incomplete: its older versions append to such a file without a check.
// Threads: write() for different pieces may run at once; everything else is locked.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ft::hub {

class PartialFile {
 public:
  /// Opens or creates the file for the blob `path`. `piece_bytes` applies to a new file; an old one keeps its
  /// size of pieces. Errors: kExhausted if the disk cannot hold it, kIo.
  static Result<std::unique_ptr<PartialFile>> open(const std::string& path, const std::string& etag,
                                                   std::int64_t size, std::int64_t piece_bytes);
  /// Bytes of the file that an earlier run left, according to its journal; creates nothing.
  static std::int64_t bytes_there(const std::string& path, const std::string& etag, std::int64_t size);
  ~PartialFile();
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;

  std::int64_t size() const { return size_; }
  std::size_t pieces() const { return done_.size(); }
  std::int64_t begin(std::size_t piece) const { return static_cast<std::int64_t>(piece) * piece_bytes_; }
  std::int64_t length(std::size_t piece) const;
  /// Bytes of the piece that are present, from its begin.
  std::int64_t done(std::size_t piece) const;
  std::int64_t done() const;

  /// Appends to a piece; the caller checked that they fit.
  Status write(std::size_t piece, std::string_view bytes);
  /// Makes all written bytes durable.
  Status save();
  /// Reads bytes that are present.
  Status read(std::int64_t offset, std::span<std::byte> bytes) const;
  /// Forgets everything. One piece of the whole file if `whole`.
  Status restart(bool whole);
  /// All pieces are complete and correct: the file becomes the blob.
  Status publish();
  /// Removes the file.
  void remove();

  static std::string name_for(const std::string& blob) { return blob + ".foretoken.incomplete"; }

 private:
  PartialFile(int file, std::string blob, std::string etag, std::int64_t size, std::int64_t piece_bytes);
  std::string journal(std::uint64_t sequence) const;
  bool resume();
  Status reserve();
  void cut_in_pieces(std::int64_t piece_bytes);
  Error failed(const char* what, int number) const;

  int file_;
  std::string blob_, etag_;
  std::int64_t size_, piece_bytes_ = 0;
  mutable std::mutex mutex_;  // done_
  std::vector<std::int64_t> done_;
  std::mutex saving_;  // sequence_
  std::uint64_t sequence_ = 0;
};

/// The contents of a journal, or nothing if it is damaged or of another file. For tests of hostile bytes.
struct Journal {
  std::uint64_t sequence = 0;
  std::int64_t piece_bytes = 0;
  std::vector<std::int64_t> done;
};
bool parse_journal(std::span<const std::byte> bytes, std::string_view etag, std::int64_t size,
                   Journal& journal);

}  // namespace ft::hub
