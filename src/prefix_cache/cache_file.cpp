#include "prefix_cache/cache_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <type_traits>
#include <unistd.h>
#include <utility>

#include "base/checksum.h"
#include "base/clock.h"

namespace ft {
namespace {

constexpr char kMagic[16] = {'f', 'o', 'r', 'e', 't', 'o', 'k', 'e', 'n', ' ', 'p', 'r', 'e', 'f', 'i', 'x'};
constexpr std::int64_t kPieceBytes = 1 << 20;
constexpr std::int64_t kSumBytes = sizeof(std::uint64_t);

struct Head {
  char magic[16];
  std::uint32_t version;
  std::uint32_t drafts;
  char identity[kFingerprintDigits];
  std::int64_t body_bytes;
  std::int64_t low, high, depth;
  std::uint64_t before;
  std::int32_t tail[CachePlace::kTailTokens];
  std::uint64_t owner;
  std::uint64_t checksum;  // of the whole file header, with this field 0
};
constexpr std::int64_t kHeadBytes = sizeof(Head);
static_assert(kHeadBytes == 368 && std::is_trivially_copyable_v<Head>);

std::span<const std::byte> bytes_of(const Head& head) { return std::as_bytes(std::span(&head, 1)); }

std::uint64_t sum_of(Head head) {
  head.checksum = 0;
  return checksum(bytes_of(head));
}

/// Over the checksums of the file header and of the pieces, so a piece in another place is detected too.
std::uint64_t sum_of_sums(std::uint64_t head, std::span<const std::uint64_t> pieces) {
  std::vector<std::uint64_t> all{head};
  all.insert(all.end(), pieces.begin(), pieces.end());
  return checksum(std::as_bytes(std::span(all)));
}

std::int64_t pieces_of(std::int64_t body_bytes) { return (body_bytes + kPieceBytes - 1) / kPieceBytes; }

Error system_error(const char* task, int number) {
  const bool full = number == ENOSPC || number == EDQUOT || number == EFBIG;
  return Error{full ? Code::kExhausted : Code::kIo,
               fmt::format("cannot {} it: {}", task, std::strerror(number))};
}

Error corrupt(std::string why) { return Error{Code::kCorrupt, std::move(why)}; }

/// Reads `out` from `offset` on; kCorrupt if the file ends before.
Status read_at(int fd, std::span<std::byte> out, std::int64_t offset) {
  while (!out.empty()) {
    const ssize_t got = ::pread(fd, out.data(), out.size(), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error("read", errno);
    if (got == 0) return corrupt("it is cut off");
    out = out.subspan(static_cast<std::size_t>(got));
    offset += got;
  }
  return {};
}

}  // namespace

// ---- places

std::uint64_t CachePlace::next(std::uint64_t before, std::span<const std::int32_t> block) {
  std::array<std::byte, sizeof before + kBlockRows * sizeof(std::int32_t)> bytes{};
  std::memcpy(bytes.data(), &before, sizeof before);
  std::memcpy(bytes.data() + sizeof before, block.data(),
              std::min(block.size_bytes(), bytes.size() - sizeof before));
  return checksum(bytes);
}

CachePlace CachePlace::of(std::span<const std::int32_t> tokens, std::int64_t low, bool drafts) {
  CachePlace place;
  place.high = static_cast<std::int64_t>(tokens.size());
  const std::int64_t least = (place.high - kBlockRows) / kBlockRows * kBlockRows;  // keeps the tail short
  place.depth = std::max(low / kBlockRows * kBlockRows, std::max<std::int64_t>(least, 0));
  place.low = std::max({low, place.depth, std::int64_t{1}});
  place.drafts = drafts;
  for (std::int64_t at = 0; at < place.depth; at += kBlockRows) {
    place.before = next(place.before, tokens.subspan(static_cast<std::size_t>(at), kBlockRows));
  }
  const auto tail = tokens.subspan(static_cast<std::size_t>(place.depth));
  place.tail.assign(tail.begin(), tail.end());
  return place;
}

// ---- writing

CacheFileWriter::CacheFileWriter(std::string path, std::int64_t most_bytes, const std::atomic<bool>& stop)
    : path_(std::move(path)), most_bytes_(most_bytes), stop_(stop), body_bytes_(0) {
  fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd_ < 0) failure_ = errno;
  piece_.reserve(static_cast<std::size_t>(kPieceBytes));
}

CacheFileWriter::~CacheFileWriter() {
  if (fd_ < 0) return;
  ::close(fd_);
  if (!finished_) ::unlink(path_.c_str());
}

bool CacheFileWriter::write(std::span<const std::byte> bytes, std::int64_t offset) {
  rlimit limit{};
  const auto end = static_cast<std::uint64_t>(offset) + bytes.size();
  // Growing beyond this limit would end the process (SIGXFSZ).
  const bool too_far = ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && end > limit.rlim_cur;
  if (failure_ == 0 && stop_) failure_ = ECANCELED;
  if (failure_ == 0 && (too_far || end > static_cast<std::uint64_t>(most_bytes_))) failure_ = EFBIG;
  while (failure_ == 0 && !bytes.empty()) {
    const ssize_t written = ::pwrite(fd_, bytes.data(), bytes.size(), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) failure_ = written < 0 ? errno : ENOSPC;
    if (written <= 0) break;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    offset += written;
  }
  return failure_ == 0;
}

bool CacheFileWriter::put(std::span<const std::byte> bytes) {
  while (failure_ == 0 && !bytes.empty()) {
    const std::size_t room = static_cast<std::size_t>(kPieceBytes) - piece_.size();
    const auto part = bytes.first(std::min(room, bytes.size()));
    piece_.insert(piece_.end(), part.begin(), part.end());
    bytes = bytes.subspan(part.size());
    if (static_cast<std::int64_t>(piece_.size()) == kPieceBytes) end_piece();
  }
  return failure_ == 0;
}

bool CacheFileWriter::end_piece() {
  sums_.push_back(checksum(piece_));
  const bool written = write(piece_, kHeadBytes + body_bytes_);
  body_bytes_ += static_cast<std::int64_t>(piece_.size());
  piece_.clear();
  return written;
}

Result<std::int64_t> CacheFileWriter::finish(const CachePlace& place, const std::string& identity) {
  if (!piece_.empty()) end_piece();
  Head head{};
  std::memcpy(head.magic, kMagic, sizeof kMagic);
  head.version = kCacheFileVersion;
  head.drafts = place.drafts ? 1 : 0;
  head.owner = place.owner;
  std::memcpy(head.identity, identity.data(), std::min(identity.size(), sizeof head.identity));
  head.body_bytes = body_bytes_;
  head.low = place.low, head.high = place.high, head.depth = place.depth;
  head.before = place.before;
  std::copy_n(place.tail.begin(), std::min(place.tail.size(), std::size(head.tail)), head.tail);
  head.checksum = sum_of(head);
  sums_.push_back(sum_of_sums(head.checksum, sums_));
  const bool written =
      write(std::as_bytes(std::span(sums_)), kHeadBytes + body_bytes_) && write(bytes_of(head), 0);
  if (written && ::fsync(fd_) != 0) failure_ = errno;
  if (failure_ == ECANCELED) return Error{Code::kCancelled, "it is no longer needed"};
  if (failure_ != 0) return system_error("write", failure_);
  finished_ = true;
  return kHeadBytes + body_bytes_ + static_cast<std::int64_t>(sums_.size()) * kSumBytes;
}

// ---- reading

CacheFileReader::CacheFileReader(CacheFileReader&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      place_(std::move(other.place_)),
      head_sum_(other.head_sum_),
      bytes_(other.bytes_),
      body_bytes_(other.body_bytes_),
      given_(other.given_),
      deadline_ns_(other.deadline_ns_),
      sums_(std::move(other.sums_)),
      piece_(std::move(other.piece_)),
      at_(other.at_),
      error_(std::move(other.error_)),
      failed_(other.failed_) {}

CacheFileReader::~CacheFileReader() {
  if (fd_ >= 0) ::close(fd_);
}

Result<CacheFileReader> CacheFileReader::open(const std::string& path, const std::string& identity) {
  // Do not follow links, and do not wait for a pipe's writer.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0 && errno == ENOENT) return Error{Code::kNotFound, "it is gone"};
  if (fd < 0) return system_error("open", errno);
  return open(fd, identity);
}

Result<CacheFileReader> CacheFileReader::open(int fd, const std::string& identity) {
  CacheFileReader reader(fd);
  FT_TRY(reader.read_head(identity));
  return reader;
}

Status CacheFileReader::read_head(const std::string& identity) {
  struct stat info{};
  if (::fstat(fd_, &info) != 0) return system_error("look at", errno);
  if (!S_ISREG(info.st_mode)) return corrupt("it is not a regular file");
  // This data decides answers, so only this user and root may have written it.
  if (info.st_uid != ::geteuid() && info.st_uid != 0) return corrupt("it belongs to another user");
  Head head{};
  FT_TRY(read_at(fd_, std::as_writable_bytes(std::span(&head, 1)), 0));
  if (std::memcmp(head.magic, kMagic, sizeof kMagic) != 0) return corrupt("it is not a prefix cache file");
  if (head.version != kCacheFileVersion) {
    return Error{Code::kUnsupported, fmt::format("it has version {}", head.version)};
  }
  if (sum_of(head) != head.checksum) return corrupt("its header is damaged");
  if (std::string_view(head.identity, sizeof head.identity) != identity) {
    return Error{Code::kUnsupported, "it is from another model, backend or program"};
  }
  bytes_ = info.st_size;
  body_bytes_ = head.body_bytes;
  head_sum_ = head.checksum;
  if (body_bytes_ < 0 || body_bytes_ > bytes_ ||
      bytes_ != kHeadBytes + body_bytes_ + (pieces_of(body_bytes_) + 1) * kSumBytes) {
    return corrupt("it is cut off");
  }
  const bool ordered =
      head.depth >= 0 && head.low >= std::max<std::int64_t>(1, head.depth) && head.high >= head.low;
  if (!ordered || head.depth % kBlockRows != 0 || head.high - head.depth > CachePlace::kTailTokens ||
      head.drafts > 1) {
    return corrupt("its header contradicts itself");
  }
  const std::int64_t tail = head.high - head.depth;
  place_ = {head.low,         head.high, head.depth, head.before, {head.tail, head.tail + tail},
            head.drafts == 1, head.owner};
  return {};
}

Status CacheFileReader::begin(std::int64_t deadline_ns) {
  deadline_ns_ = deadline_ns;
  sums_.resize(static_cast<std::size_t>(pieces_of(body_bytes_)) + 1);
  FT_TRY(read_at(fd_, std::as_writable_bytes(std::span(sums_)), kHeadBytes + body_bytes_));
  const std::uint64_t wanted = sums_.back();
  sums_.pop_back();
  return sum_of_sums(head_sum_, sums_) == wanted ? Status() : corrupt("its checksums are damaged");
}

bool CacheFileReader::fail(Code code, std::string why) {
  if (!failed_) error_ = Error{code, std::move(why)};
  failed_ = true;
  return false;
}

bool CacheFileReader::get(std::span<std::byte> out) {
  if (!failed_ && static_cast<std::int64_t>(out.size()) > left()) fail(Code::kCorrupt, "it ends too early");
  while (!failed_ && !out.empty()) {
    if (at_ == piece_.size() && !next_piece()) break;
    const std::size_t part = std::min(out.size(), piece_.size() - at_);
    std::memcpy(out.data(), piece_.data() + at_, part);
    out = out.subspan(part);
    at_ += part;
    given_ += static_cast<std::int64_t>(part);
  }
  return !failed_;
}

bool CacheFileReader::next_piece() {
  const std::int64_t number = given_ / kPieceBytes;
  if (steady_ns() > deadline_ns_) return fail(Code::kBusy, "reading it takes too long");
  if (number >= static_cast<std::int64_t>(sums_.size())) return fail(Code::kCorrupt, "reading has not begun");
  piece_.resize(static_cast<std::size_t>(std::min(kPieceBytes, body_bytes_ - number * kPieceBytes)));
  at_ = 0;
  const Status read = read_at(fd_, piece_, kHeadBytes + number * kPieceBytes);
  if (!read.ok()) return fail(read.error().code, read.error().message);
  if (checksum(piece_) != sums_[static_cast<std::size_t>(number)]) {
    return fail(Code::kCorrupt, "a checksum does not match");
  }
  return true;
}

}  // namespace ft
