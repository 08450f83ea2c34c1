#include "prefix_cache/cache_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <type_traits>
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
  std::int64_t shared;     // files of rows
  std::uint64_t checksum;  // of the whole file header, with this field 0
};
constexpr std::int64_t kHeadBytes = sizeof(Head);
static_assert(kHeadBytes == 376 && std::is_trivially_copyable_v<Head>);

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

Error corrupt(std::string why) { return Error{Code::kCorrupt, std::move(why)}; }

/// The names of shared files and their checksum.
std::int64_t shared_bytes(std::int64_t count) {
  return count == 0 ? 0 : count * static_cast<std::int64_t>(kFingerprintDigits) + kSumBytes;
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

CacheFileWriter::CacheFileWriter(CacheStore& store, std::string name, std::int64_t most_bytes,
                                 const std::atomic<bool>& stop)
    : store_(store), name_(std::move(name)), most_bytes_(most_bytes), stop_(stop), body_bytes_(0) {
  Result<std::shared_ptr<CacheBytes>> made = store_.create(name_);
  if (made.ok()) bytes_ = std::move(*made);
  if (!made.ok()) unmade_ = made.error();
  piece_.reserve(static_cast<std::size_t>(kPieceBytes));
}

CacheFileWriter::~CacheFileWriter() {
  if (bytes_ != nullptr && !finished_) store_.discard(name_);
}

bool CacheFileWriter::write(std::span<const std::byte> bytes, std::int64_t offset) {
  if (bytes_ == nullptr) return false;
  const std::int64_t end = offset + static_cast<std::int64_t>(bytes.size());
  if (failure_ == 0 && stop_) failure_ = ECANCELED;
  if (failure_ == 0 && end > most_bytes_) failure_ = EFBIG;
  if (failure_ == 0) failure_ = bytes_->write_at(bytes, offset);
  return failure_ == 0;
}

bool CacheFileWriter::put(std::span<const std::byte> bytes) {
  while (bytes_ != nullptr && failure_ == 0 && !bytes.empty()) {
    const std::size_t room = static_cast<std::size_t>(kPieceBytes) - piece_.size();
    const auto part = bytes.first(std::min(room, bytes.size()));
    piece_.insert(piece_.end(), part.begin(), part.end());
    bytes = bytes.subspan(part.size());
    if (static_cast<std::int64_t>(piece_.size()) == kPieceBytes) end_piece();
  }
  return bytes_ != nullptr && failure_ == 0;
}

bool CacheFileWriter::end_piece() {
  sums_.push_back(checksum(piece_));
  const bool written = write(piece_, kHeadBytes + body_bytes_);
  body_bytes_ += static_cast<std::int64_t>(piece_.size());
  piece_.clear();
  return written;
}

Result<std::int64_t> CacheFileWriter::finish(const CachePlace& place, const std::string& identity,
                                             std::span<const std::string> shared) {
  if (bytes_ == nullptr) return unmade_;
  if (!piece_.empty()) end_piece();
  Head head{};
  std::memcpy(head.magic, kMagic, sizeof kMagic);
  head.version = kCacheFileVersion;
  head.drafts = place.drafts ? 1 : 0;
  head.owner = place.owner;
  std::memcpy(head.identity, identity.data(), std::min(identity.size(), sizeof head.identity));
  head.body_bytes = body_bytes_;
  head.shared = static_cast<std::int64_t>(shared.size());
  head.low = place.low, head.high = place.high, head.depth = place.depth;
  head.before = place.before;
  std::copy_n(place.tail.begin(), std::min(place.tail.size(), std::size(head.tail)), head.tail);
  head.checksum = sum_of(head);
  sums_.push_back(sum_of_sums(head.checksum, sums_));
  std::string names;
  for (const std::string& name : shared) names += name;
  if (!names.empty()) {
    const std::uint64_t sum = checksum(std::as_bytes(std::span(names)));
    names.append(reinterpret_cast<const char*>(&sum), sizeof sum);
  }
  const std::int64_t sums_at = kHeadBytes + body_bytes_ + static_cast<std::int64_t>(names.size());
  const bool written = write(std::as_bytes(std::span(names)), kHeadBytes + body_bytes_) &&
                       write(std::as_bytes(std::span(sums_)), sums_at) && write(bytes_of(head), 0);
  if (written) failure_ = bytes_->sync();
  if (failure_ == ECANCELED) return Error{Code::kCancelled, "it is no longer needed"};
  if (failure_ != 0) return cache_error("write", failure_);
  FT_TRY(store_.publish(name_, bytes_));
  finished_ = true;
  return sums_at + static_cast<std::int64_t>(sums_.size()) * kSumBytes;
}

// ---- reading

Result<CacheFileReader> CacheFileReader::open(CacheStore& store, const std::string& name,
                                              const std::string& identity) {
  FT_ASSIGN(std::shared_ptr<CacheBytes> bytes, store.open(name));
  return open(std::move(bytes), identity);
}

Result<CacheFileReader> CacheFileReader::open(std::shared_ptr<CacheBytes> bytes,
                                              const std::string& identity) {
  CacheFileReader reader(std::move(bytes));
  FT_TRY(reader.read_head(identity));
  return reader;
}

Status CacheFileReader::read_head(const std::string& identity) {
  Head head{};
  FT_TRY(file_->read_at(std::as_writable_bytes(std::span(&head, 1)), 0));
  if (std::memcmp(head.magic, kMagic, sizeof kMagic) != 0) return corrupt("it is not a prefix cache file");
  if (head.version != kCacheFileVersion) {
    return Error{Code::kUnsupported, fmt::format("it has version {}", head.version)};
  }
  if (sum_of(head) != head.checksum) return corrupt("its header is damaged");
  if (std::string_view(head.identity, sizeof head.identity) != identity) {
    return Error{Code::kUnsupported, "it is from another model, backend or program"};
  }
  bytes_ = file_->size();
  body_bytes_ = head.body_bytes;
  head_sum_ = head.checksum;
  const bool sizes = body_bytes_ >= 0 && body_bytes_ <= bytes_ && head.shared >= 0 && head.shared <= bytes_;
  sums_at_ = sizes ? kHeadBytes + body_bytes_ + shared_bytes(head.shared) : 0;
  if (!sizes || bytes_ != sums_at_ + (pieces_of(body_bytes_) + 1) * kSumBytes)
    return corrupt("it is cut off");
  const bool ordered =
      head.depth >= 0 && head.low >= std::max<std::int64_t>(1, head.depth) && head.high >= head.low;
  if (!ordered || head.depth % kBlockRows != 0 || head.high - head.depth > CachePlace::kTailTokens ||
      head.drafts > 1) {
    return corrupt("its header contradicts itself");
  }
  const std::int64_t tail = head.high - head.depth;
  place_ = {head.low,         head.high, head.depth, head.before, {head.tail, head.tail + tail},
            head.drafts == 1, head.owner};
  return head.shared > 0 ? read_shared(head.shared) : Status();
}

Status CacheFileReader::read_shared(std::int64_t count) {
  std::string names(static_cast<std::size_t>(shared_bytes(count)), '\0');
  FT_TRY(file_->read_at(std::as_writable_bytes(std::span(names)), kHeadBytes + body_bytes_));
  std::uint64_t sum = 0;
  names.copy(reinterpret_cast<char*>(&sum), sizeof sum, names.size() - sizeof sum);
  names.resize(names.size() - sizeof sum);
  if (checksum(std::as_bytes(std::span(names))) != sum) return corrupt("its list of shared files is damaged");
  for (std::size_t at = 0; at < names.size(); at += kFingerprintDigits) {
    shared_.push_back(names.substr(at, kFingerprintDigits));
  }
  return {};
}

Status CacheFileReader::begin(std::int64_t deadline_ns) {
  deadline_ns_ = deadline_ns;
  sums_.resize(static_cast<std::size_t>(pieces_of(body_bytes_)) + 1);
  FT_TRY(file_->read_at(std::as_writable_bytes(std::span(sums_)), sums_at_));
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
  const Status read = file_->read_at(piece_, kHeadBytes + number * kPieceBytes);
  if (!read.ok()) return fail(read.error().code, read.error().message);
  if (checksum(piece_) != sums_[static_cast<std::size_t>(number)]) {
    return fail(Code::kCorrupt, "a checksum does not match");
  }
  return true;
}

}  // namespace ft
