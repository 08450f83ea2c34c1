#include "backends/packed_cache.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <type_traits>
#include <unistd.h>
#include <utility>

#include "base/assert.h"
#include "base/checksum.h"
#include "base/system.h"

namespace ft {
namespace {

constexpr char kMagic[16] = {'f', 'o', 'r', 'e', 't', 'o', 'k', 'e', 'n', ' ', 'p', 'a', 'c', 'k', 'e', 'd'};

struct Header {
  char magic[16];
  std::uint32_t version;
  std::uint32_t pieces;
  std::uint64_t bytes;  // of the weights, including read-ahead
  char source[kFingerprintDigits];
  char layout[kFingerprintDigits];
  std::uint64_t checksum;  // of everything before the weights, with this field 0
};
static_assert(sizeof(Header) == 104 && std::is_trivially_copyable_v<Header>);

std::int64_t data_offset(int pieces) {
  const auto front = static_cast<std::int64_t>(sizeof(Header)) + std::int64_t{8} * pieces;
  return (front + kPackedPageBytes - 1) / kPackedPageBytes * kPackedPageBytes;
}

Error damaged(const std::string& path, const std::string& what) {
  return Error{Code::kCorrupt, fmt::format("{}: {}; the weights are packed again", path, what)};
}

/// Everything before the weights.
std::vector<std::byte> make_front(const PackedCacheKey& key, std::span<const std::uint64_t> checksums) {
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.version = kPackedFileVersion;
  header.pieces = static_cast<std::uint32_t>(checksums.size());
  header.bytes = static_cast<std::uint64_t>(key.bytes);
  std::memcpy(header.source, key.source.data(), std::min(key.source.size(), sizeof header.source));
  std::memcpy(header.layout, key.layout.data(), std::min(key.layout.size(), sizeof header.layout));
  std::vector<std::byte> front(static_cast<std::size_t>(data_offset(static_cast<int>(checksums.size()))));
  std::memcpy(front.data(), &header, sizeof header);
  std::memcpy(front.data() + sizeof header, checksums.data(), checksums.size_bytes());
  header.checksum = checksum(front);
  std::memcpy(front.data(), &header, sizeof header);
  return front;
}

/// The file must belong to this user or root, because its weights decide this user's answers.
Status check_owner(const std::string& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) return {};  // opening the file reports why
  if (info.st_uid == ::geteuid() || info.st_uid == 0) return {};
  return damaged(path, "it belongs to another user");
}

/// An unfinished file, which is removed with this object unless it was renamed.
class Part {
 public:
  explicit Part(std::string path) : path_(std::move(path)) {}
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;
  ~Part() {
    if (fd_ < 0) return;
    if (mine_) ::unlink(path_.c_str());
    ::close(fd_);
  }

  /// Continues the file of an interrupted process; refuses a file that another process is writing.
  Status open() {
    fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd_ < 0) return failed("create it");
    struct stat opened{}, named{};
    if (::flock(fd_, LOCK_EX | LOCK_NB) != 0 || ::fstat(fd_, &opened) != 0 ||
        ::stat(path_.c_str(), &named) != 0 || opened.st_ino != named.st_ino ||
        opened.st_dev != named.st_dev) {
      return Error{Code::kExhausted, path_ + ": another process is writing it"};
    }
    mine_ = true;
    return ::ftruncate(fd_, 0) == 0 ? Status() : failed("empty it");
  }

  /// Reserves the space before anything is written.
  Status reserve(std::int64_t bytes) {
    rlimit limit{};
    // Growing beyond the limit would end the process (SIGXFSZ).
    if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && static_cast<std::uint64_t>(bytes) > limit.rlim_cur) {
      errno = EFBIG;
      return failed("write it");
    }
    // A file system that cannot reserve space reports a full disk during writing.
    const int refused = reserve_space(fd_, bytes);
    errno = refused;
    if (refused == ENOSPC) return failed("write it");
    return {};
  }

  Status write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return failed("write it");
      bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
    return {};
  }

  /// Replaces the first bytes.
  Status rewrite(std::span<const std::byte> bytes) {
    if (::lseek(fd_, 0, SEEK_SET) != 0) return failed("write it");
    return write(bytes);
  }

  Status rename(const std::string& path) {
    if (::fsync(fd_) != 0) return failed("write it");
    if (::rename(path_.c_str(), path.c_str()) != 0) return failed("rename it");
    mine_ = false;
    return {};
  }

 private:
  Error failed(const char* task) const {
    return Error{errno == ENOSPC || errno == EDQUOT || errno == EFBIG ? Code::kExhausted : Code::kIo,
                 fmt::format("{}: cannot {}: {}", path_, task, std::strerror(errno))};
  }

  std::string path_;
  int fd_ = -1;
  bool mine_ = false;
};

}  // namespace

PackedCacheKey PackedCacheKey::of(const PackedCacheOptions& options, const std::string& layout_text,
                                  std::int64_t bytes) {
  PackedCacheKey key;
  const std::string file =
      options.name + "-" + fingerprint(options.place + "\n" + layout_text).substr(0, 16) + kPackedFileSuffix;
  key.path = (std::filesystem::path(options.folder) / file).string();
  key.source = options.source;
  key.layout = fingerprint(layout_text);
  key.bytes = bytes;
  return key;
}

int piece_count(std::int64_t bytes) { return static_cast<int>((bytes + kPieceBytes - 1) / kPieceBytes); }

std::span<const std::byte> piece_of(std::span<const std::byte> data, int piece) {
  const auto first = static_cast<std::size_t>(piece * kPieceBytes);
  return data.subspan(first, std::min(static_cast<std::size_t>(kPieceBytes), data.size() - first));
}

Result<PackedFile> PackedFile::open(const PackedCacheKey& key) {
  FT_TRY(check_owner(key.path));
  PackedFile packed_cache;
  FT_ASSIGN(packed_cache.file_, MappedFile::open(key.path));
  const std::span<const std::byte> bytes = packed_cache.file_.bytes();
  Header header{};
  if (bytes.size() < sizeof header) return damaged(key.path, "it is too short for a packed-weight cache");
  std::memcpy(&header, bytes.data(), sizeof header);
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0) {
    return damaged(key.path, "it is not a packed-weight cache");
  }
  if (header.version != kPackedFileVersion) {
    return damaged(key.path, fmt::format("it has version {}, this program writes {}", header.version,
                                         kPackedFileVersion));
  }
  const int pieces = piece_count(key.bytes);
  const auto offset = static_cast<std::size_t>(data_offset(pieces));
  if (std::string_view(header.layout, sizeof header.layout) != key.layout ||
      header.pieces != static_cast<std::uint32_t>(pieces) ||
      header.bytes != static_cast<std::uint64_t>(key.bytes)) {
    return damaged(key.path, "it holds other weights");
  }
  if (std::string_view(header.source, sizeof header.source) != key.source) {
    return damaged(key.path, "the model has changed since it was written");
  }
  if (bytes.size() != offset + static_cast<std::size_t>(key.bytes)) {
    return damaged(key.path, fmt::format("it has {} bytes instead of {}", bytes.size(),
                                         offset + static_cast<std::size_t>(key.bytes)));
  }
  std::vector<std::byte> front(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(offset));
  const std::uint64_t stored_checksum = std::exchange(header.checksum, 0);
  std::memcpy(front.data(), &header, sizeof header);
  if (checksum(front) != stored_checksum) return damaged(key.path, "its header is damaged");
  packed_cache.checksums_.resize(static_cast<std::size_t>(pieces));
  std::memcpy(packed_cache.checksums_.data(), front.data() + sizeof header,
              packed_cache.checksums_.size() * sizeof(std::uint64_t));
  packed_cache.data_ = bytes.subspan(offset);
  return packed_cache;
}

bool PackedFile::intact(int piece) const {
  return checksum(piece_of(data_, piece)) == checksums_[static_cast<std::size_t>(piece)];
}

Status PackedFile::check(ThreadPool& pool) const {
  std::atomic<int> bad{-1};
  auto work = [this, &bad](int worker, int workers) {
    const auto count = std::int64_t{pieces()};
    for (std::int64_t piece = count * worker / workers; piece < count * (worker + 1) / workers; ++piece) {
      if (!intact(static_cast<int>(piece))) bad.store(static_cast<int>(piece));
    }
  };
  pool.run(work);
  if (bad < 0) return {};
  return damaged(file_.path(),
                 fmt::format("the piece at byte {} of its weights is damaged", bad * kPieceBytes));
}

struct PackedWriter::State {
  explicit State(const PackedCacheKey& wanted) : key(wanted), part(wanted.path + ".part") {}

  /// Writes the gathered piece.
  Status close_piece() {
    checksums.push_back(checksum(piece));
    FT_TRY(part.write(piece));
    written += static_cast<std::int64_t>(piece.size());
    piece.clear();
    return {};
  }

  PackedCacheKey key;
  Part part;
  std::vector<std::byte> piece;  // not yet written, at most kPieceBytes
  std::vector<std::uint64_t> checksums;
  std::int64_t written = 0;
};

PackedWriter::PackedWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}
PackedWriter::PackedWriter(PackedWriter&&) noexcept = default;
PackedWriter& PackedWriter::operator=(PackedWriter&&) noexcept = default;
PackedWriter::~PackedWriter() = default;

Result<PackedWriter> PackedWriter::open(const PackedCacheKey& key) {
  std::error_code failure;
  std::filesystem::create_directories(std::filesystem::path(key.path).parent_path(), failure);
  if (failure) {
    return Error{Code::kIo, fmt::format("{}: its folder cannot be created: {}", key.path, failure.message())};
  }
  auto state = std::make_unique<State>(key);
  const std::int64_t front = data_offset(piece_count(key.bytes));
  FT_TRY(state->part.open());
  FT_TRY(state->part.reserve(front + key.bytes));
  FT_TRY(state->part.write(std::vector<std::byte>(static_cast<std::size_t>(front))));
  state->piece.reserve(static_cast<std::size_t>(kPieceBytes));
  return PackedWriter(std::move(state));
}

Status PackedWriter::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::size_t room = static_cast<std::size_t>(kPieceBytes) - state_->piece.size();
    const std::span<const std::byte> some = bytes.first(std::min(room, bytes.size()));
    state_->piece.insert(state_->piece.end(), some.begin(), some.end());
    bytes = bytes.subspan(some.size());
    if (state_->piece.size() == static_cast<std::size_t>(kPieceBytes)) FT_TRY(state_->close_piece());
  }
  return {};
}

Status PackedWriter::finish() {
  State& state = *state_;
  const std::int64_t left = state.key.bytes - state.written - static_cast<std::int64_t>(state.piece.size());
  FT_ASSERT(left >= 0);
  FT_TRY(append(std::vector<std::byte>(static_cast<std::size_t>(left))));
  if (!state.piece.empty()) FT_TRY(state.close_piece());
  FT_TRY(state.part.rewrite(make_front(state.key, state.checksums)));
  return state.part.rename(state.key.path);
}

}  // namespace ft
