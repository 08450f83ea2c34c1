#include "hub/partial.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/system.h"

namespace ft::hub {
namespace {

constexpr std::array<char, 8> kMagic = {'f', 't', 'p', 'a', 'r', 't', '0', '1'};
constexpr std::size_t kEtagBytes = 64;
constexpr mode_t kMode = 0666;  // minus the umask

/// Followed by one int64 a piece and the checksum of everything before it.
struct Head {
  std::array<char, 8> magic;
  std::uint64_t sequence;
  std::array<char, kEtagBytes> etag;
  std::int64_t size, piece_bytes;
};
constexpr std::size_t kChecksumBytes = sizeof(std::uint64_t);

std::size_t journal_bytes(std::size_t pieces) {
  return sizeof(Head) + pieces * sizeof(std::int64_t) + kChecksumBytes;
}

std::size_t pieces_of(std::int64_t size, std::int64_t piece_bytes) {
  return static_cast<std::size_t>((size + piece_bytes - 1) / piece_bytes);
}

bool write_all(int file, std::string_view bytes, std::int64_t offset) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(file, bytes.data(), bytes.size(), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(written));
    offset += written;
  }
  return true;
}

bool read_all(int file, std::span<std::byte> bytes, std::int64_t offset) {
  while (!bytes.empty()) {
    const ssize_t got = ::pread(file, bytes.data(), bytes.size(), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(got));
    offset += got;
  }
  return true;
}

}  // namespace

bool parse_journal(std::span<const std::byte> bytes, std::string_view etag, std::int64_t size,
                   Journal& journal) {
  Head head;
  if (bytes.size() < journal_bytes(0)) return false;
  std::memcpy(&head, bytes.data(), sizeof head);
  if (head.magic != kMagic || head.size != size || head.piece_bytes <= 0) return false;
  if (std::string_view(head.etag.data(), std::min(etag.size(), kEtagBytes)) != etag) return false;
  const std::size_t pieces = pieces_of(size, head.piece_bytes);
  if (pieces > bytes.size() || bytes.size() != journal_bytes(pieces)) return false;
  std::uint64_t expected = 0;
  std::memcpy(&expected, bytes.data() + bytes.size() - kChecksumBytes, kChecksumBytes);
  if (checksum(bytes.first(bytes.size() - kChecksumBytes)) != expected) return false;
  journal.sequence = head.sequence, journal.piece_bytes = head.piece_bytes;
  journal.done.resize(pieces);
  if (pieces > 0) std::memcpy(journal.done.data(), bytes.data() + sizeof head, pieces * sizeof(std::int64_t));
  for (std::size_t i = 0; i < pieces; ++i) {
    const std::int64_t begin = static_cast<std::int64_t>(i) * head.piece_bytes;
    if (journal.done[i] < 0 || journal.done[i] > std::min(head.piece_bytes, size - begin)) return false;
  }
  return true;
}

PartialFile::PartialFile(int file, std::string blob, std::string etag, std::int64_t size,
                         std::int64_t piece_bytes)
    : file_(file), blob_(std::move(blob)), etag_(std::move(etag)), size_(size) {
  cut_in_pieces(piece_bytes);
}

PartialFile::~PartialFile() { ::close(file_); }

void PartialFile::cut_in_pieces(std::int64_t piece_bytes) {
  const std::lock_guard lock(mutex_);
  piece_bytes_ = piece_bytes;
  done_.assign(pieces_of(size_, piece_bytes), 0);
}

Error PartialFile::failed(const char* what, int number) const {
  const bool full = number == ENOSPC || number == EDQUOT;
  return {full ? Code::kExhausted : Code::kIo,
          fmt::format("{}: cannot {}: {}; {}", name_for(blob_), what, std::strerror(number),
                      full ? "free some space and repeat the command, which continues there"
                           : "check the disk and the folder's permissions")};
}

Result<std::unique_ptr<PartialFile>> PartialFile::open(const std::string& blob, const std::string& etag,
                                                       std::int64_t size, std::int64_t piece_bytes) {
  const std::string name = name_for(blob);
  const int file = ::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, kMode);
  if (file < 0) {
    return Error{Code::kIo, fmt::format("{}: cannot be written: {}; check the folder's permissions", name,
                                        std::strerror(errno))};
  }
  std::unique_ptr<PartialFile> partial(new PartialFile(file, blob, etag, size, piece_bytes));
  if (!partial->resume()) FT_TRY(partial->restart(false));
  return partial;
}

std::int64_t PartialFile::bytes_there(const std::string& blob, const std::string& etag, std::int64_t size) {
  const int file = ::open(name_for(blob).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (file < 0) return 0;
  PartialFile partial(file, blob, etag, size, std::max<std::int64_t>(size, 1));
  return partial.resume() ? partial.done() : 0;
}

/// The journals begin after the last byte of the file. Their size follows from the file's size.
bool PartialFile::resume() {
  struct stat found{};
  if (::fstat(file_, &found) != 0 || found.st_size < size_ || found.st_size == 0) return false;
  if (found.st_size == size_) {  // killed between cutting the journals and renaming: the hash will decide
    for (std::size_t i = 0; i < done_.size(); ++i) done_[i] = length(i);
    return true;
  }
  const std::int64_t both = found.st_size - size_;
  constexpr std::int64_t kMaxJournals = 64 << 20;
  if (both % 2 != 0 || both > kMaxJournals) return false;
  const auto one = static_cast<std::size_t>(both / 2);
  Journal newest;
  bool any = false;
  std::vector<std::byte> bytes(one);
  for (int copy = 0; copy < 2; ++copy) {
    Journal journal;
    if (!read_all(file_, bytes, size_ + copy * static_cast<std::int64_t>(one))) continue;
    if (!parse_journal(bytes, etag_, size_, journal)) continue;
    if (!any || journal.sequence > newest.sequence) newest = std::move(journal);
    any = true;
  }
  if (!any) return false;
  piece_bytes_ = newest.piece_bytes, done_ = std::move(newest.done), sequence_ = newest.sequence;
  return true;
}

Status PartialFile::restart(bool whole) {
  if (::ftruncate(file_, 0) != 0) return failed("be emptied", errno);
  cut_in_pieces(whole ? std::max<std::int64_t>(size_, 1) : piece_bytes_);
  return reserve();
}

/// Reserves all of the space now, so that a full disk is found before hours of fetching.
Status PartialFile::reserve() {
  const auto end = size_ + 2 * static_cast<std::int64_t>(journal_bytes(pieces()));
  const int refused = reserve_space(file_, end);
  if (refused == 0) return {};
  if (refused == ENOSPC || refused == EDQUOT || refused == EFBIG) {
    remove();
    return failed("hold the file", refused);
  }
  if (::ftruncate(file_, end) != 0) return failed("hold the file", errno);
  return {};
}

std::int64_t PartialFile::length(std::size_t piece) const {
  return std::min(piece_bytes_, size_ - begin(piece));
}

std::int64_t PartialFile::done(std::size_t piece) const {
  const std::lock_guard lock(mutex_);
  return done_[piece];
}

std::int64_t PartialFile::done() const {
  const std::lock_guard lock(mutex_);
  std::int64_t sum = 0;
  for (const std::int64_t bytes : done_) sum += bytes;
  return sum;
}

Status PartialFile::write(std::size_t piece, std::string_view bytes) {
  const std::int64_t there = done(piece);
  FT_ASSERT(there + static_cast<std::int64_t>(bytes.size()) <= length(piece));
  if (!write_all(file_, bytes, begin(piece) + there)) return failed("be written", errno);
  const std::lock_guard lock(mutex_);
  done_[piece] = there + static_cast<std::int64_t>(bytes.size());
  return {};
}

std::string PartialFile::journal(std::uint64_t sequence) const {
  Head head{kMagic, sequence, {}, size_, piece_bytes_};
  std::copy_n(etag_.data(), std::min(etag_.size(), kEtagBytes), head.etag.begin());
  std::string text(reinterpret_cast<const char*>(&head), sizeof head);
  text.append(reinterpret_cast<const char*>(done_.data()), done_.size() * sizeof(std::int64_t));
  const std::uint64_t sum = checksum(std::as_bytes(std::span(text)));
  text.append(reinterpret_cast<const char*>(&sum), sizeof sum);
  return text;
}

Status PartialFile::save() {
  const std::lock_guard saving(saving_);
  std::string text;
  {
    const std::lock_guard lock(mutex_);
    text = journal(sequence_ + 1);
  }
  // The data is on disk before the journal that claims it.
#ifdef __APPLE__
  if (::fsync(file_) != 0) return failed("be saved", errno);
#else
  if (::fdatasync(file_) != 0) return failed("be saved", errno);
#endif
  ++sequence_;
  const std::int64_t place = size_ + static_cast<std::int64_t>((sequence_ % 2) * text.size());
  if (!write_all(file_, text, place)) return failed("be written", errno);
  return {};
}

Status PartialFile::read(std::int64_t offset, std::span<std::byte> bytes) const {
  if (!read_all(file_, bytes, offset)) return failed("be read", errno);
  return {};
}

Status PartialFile::publish() {
  const std::string name = name_for(blob_);
  if (::ftruncate(file_, size_) != 0) return failed("be cut", errno);
  if (::fsync(file_) != 0) return failed("be saved", errno);
  if (::rename(name.c_str(), blob_.c_str()) == 0) return {};
  if (errno == ENOENT) {
    return Error{Code::kBusy, fmt::format("{} was removed by another program while it was fetched", name)};
  }
  return failed("get its name", errno);
}

void PartialFile::remove() { ::unlink(name_for(blob_).c_str()); }

}  // namespace ft::hub
