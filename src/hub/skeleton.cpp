#include "hub/skeleton.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <span>
#include <unistd.h>

#include "base/mapped_file.h"
#include "format/safetensors.h"
#include "hub/digest.h"
#include "hub/ranges.h"

namespace ft::hub {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kFirstBytes = std::int64_t{1} << 16;   // most headers are shorter
constexpr std::int64_t kPieceBytes = std::int64_t{16} << 20;  // of one request
constexpr std::int64_t kGapBytes = std::int64_t{1} << 16;     // fetched rather than asked for apart

/// A file that is written in separate places.
class SparseFile {
 public:
  static Result<SparseFile> create(const std::string& path, std::int64_t size) {
    SparseFile file(path);
    file.file_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file.file_ < 0 || ::ftruncate(file.file_, static_cast<off_t>(size)) != 0) return file.failure();
    return file;
  }
  SparseFile(SparseFile&& other) noexcept
      : path_(std::move(other.path_)), file_(std::exchange(other.file_, -1)) {}
  SparseFile& operator=(SparseFile&&) = delete;
  SparseFile(const SparseFile&) = delete;
  SparseFile& operator=(const SparseFile&) = delete;
  ~SparseFile() {
    if (file_ >= 0) ::close(file_);
  }

  Status write(std::int64_t at, std::span<const char> bytes) {
    while (!bytes.empty()) {
      const ssize_t done = ::pwrite(file_, bytes.data(), bytes.size(), static_cast<off_t>(at));
      if (done < 0 && errno == EINTR) continue;
      if (done <= 0) return failure();
      bytes = bytes.subspan(static_cast<std::size_t>(done)), at += done;
    }
    return {};
  }

 private:
  explicit SparseFile(std::string path) : path_(std::move(path)) {}
  Error failure() const {
    return {
        errno == ENOSPC ? Code::kExhausted : Code::kIo,
        fmt::format("{}: cannot be written: {}; set TMPDIR to another folder", path_, std::strerror(errno))};
  }

  std::string path_;
  int file_ = -1;
};

class Fetcher {
 public:
  Fetcher(RangeReader& reader, std::string folder) : reader_(reader), folder_(std::move(folder)) {}

  Status small_file(const RemoteFile& file) {
    if (file.size > static_cast<std::int64_t>(kMaxListingBytes)) return {};
    std::string text(static_cast<std::size_t>(file.size), '\0');
    FT_TRY(reader_.read(file, 0, text));
    Digest digest = Digest::for_blob(file.etag(), file.size);
    digest.add(std::as_bytes(std::span(text)));
    if (digest.finish() != file.etag()) {
      return Error{Code::kCorrupt, fmt::format("{}: its bytes do not have the hash that the hub names; try "
                                               "again later",
                                               file.path)};
    }
    FT_ASSIGN(SparseFile out, begin(file));
    return out.write(0, text);
  }

  Status weight_file(const RemoteFile& file, const WantedRanges& wanted) {
    FT_ASSIGN(SparseFile out, begin(file));
    FT_ASSIGN(const std::int64_t there, header(file, out));
    const std::string path = (fs::path(folder_) / file.path).string();
    FT_ASSIGN(const MappedFile mapped, MappedFile::open(path));
    FT_ASSIGN(const format::Safetensors parsed, format::parse_safetensors(mapped.bytes(), file.path));
    for (const ByteRange& range : in_file(parsed, mapped, there, wanted)) FT_TRY(copy(file, range, out));
    return {};
  }

 private:
  Result<SparseFile> begin(const RemoteFile& file) const {
    const fs::path path = fs::path(folder_) / file.path;
    std::error_code failed;
    fs::create_directories(path.parent_path(), failed);
    return SparseFile::create(path.string(), file.size);
  }

  /// Afterwards the file has this many of its first bytes: the header, and the bytes fetched with it.
  Result<std::int64_t> header(const RemoteFile& file, SparseFile& out) {
    std::string bytes(static_cast<std::size_t>(std::min(file.size, kFirstBytes)), '\0');
    FT_TRY(reader_.read(file, 0, bytes));
    std::uint64_t length = 0;
    if (bytes.size() >= sizeof length) std::memcpy(&length, bytes.data(), sizeof length);
    const std::uint64_t whole = sizeof length + length;
    if (length == 0 || length > format::kMaxHeaderBytes || whole > static_cast<std::uint64_t>(file.size))
      return Error{Code::kCorrupt, fmt::format("{}: it has no safetensors header", file.path)};
    const std::size_t here = bytes.size();
    if (whole > here) {
      bytes.resize(static_cast<std::size_t>(whole));
      FT_TRY(reader_.read(file, static_cast<std::int64_t>(here), std::span(bytes).subspan(here)));
    }
    FT_TRY(out.write(0, bytes));
    return std::ssize(bytes);
  }

  /// The ranges of all selected tensors as ranges of the file, ascending; close ones are joined. The first
  /// `there` bytes of the file are left out.
  static std::vector<ByteRange> in_file(const format::Safetensors& parsed, const MappedFile& mapped,
                                        std::int64_t there, const WantedRanges& wanted) {
    std::vector<ByteRange> ranges;
    for (const format::TensorView& tensor : parsed.tensors) {
      const std::int64_t begin = tensor.bytes.data() - mapped.bytes().data();
      for (const ByteRange& range : wanted(tensor)) {
        const std::int64_t first = std::max(begin + range.first, there);
        ranges.push_back({first, begin + range.first + range.bytes - first});
      }
    }
    std::ranges::sort(ranges, {}, &ByteRange::first);
    std::vector<ByteRange> joined;
    for (const ByteRange& range : ranges) {
      if (range.bytes <= 0) continue;
      const std::int64_t end = range.first + range.bytes;
      if (!joined.empty() && range.first <= joined.back().first + joined.back().bytes + kGapBytes) {
        joined.back().bytes = std::max(joined.back().bytes, end - joined.back().first);
      } else {
        joined.push_back(range);
      }
    }
    return joined;
  }

  Status copy(const RemoteFile& file, const ByteRange& range, SparseFile& out) {
    std::string bytes;
    for (std::int64_t done = 0; done < range.bytes; done += std::ssize(bytes)) {
      bytes.resize(static_cast<std::size_t>(std::min(kPieceBytes, range.bytes - done)));
      FT_TRY(reader_.read(file, range.first + done, bytes));
      FT_TRY(out.write(range.first + done, bytes));
    }
    return {};
  }

  RangeReader& reader_;
  std::string folder_;
};

}  // namespace

Result<Skeleton> fetch_skeleton(const HubSettings& settings, Transport& transport, const Pace& pace,
                                PullEvents& events, const Repository& repository, const std::string& folder,
                                const WantedRanges& wanted) {
  if (settings.offline) {
    return Error{
        Code::kUnsupported,
        fmt::format("{} cannot be downloaded while HF_HUB_OFFLINE is set; unset it", repository.id())};
  }
  HubClient client(settings, transport, pace, events);
  Skeleton skeleton;
  FT_ASSIGN(skeleton.commit, client.commit(repository));
  FT_ASSIGN(const std::vector<RemoteFile> files, client.files(repository, skeleton.commit));
  FT_ASSIGN(FileChoice choice, choose_files(files, repository, {}, {}));
  RangeReader reader(client, transport, repository, skeleton.commit);
  Fetcher fetcher(reader, folder);
  for (const RemoteFile& file : choice.texts) FT_TRY(fetcher.small_file(file));
  add_named_weights(files, folder, {}, choice);
  for (const RemoteFile& file : choice.weights) {
    if (!file.path.ends_with(".safetensors")) {
      return Error{Code::kUnsupported, fmt::format("{} is not safetensors, and only their headers are read "
                                                   "remotely; fetch it with: foretoken pull {}",
                                                   file.path, repository.text())};
    }
    FT_TRY(fetcher.weight_file(file, wanted));
  }
  for (const std::vector<RemoteFile>* group : {&choice.texts, &choice.weights}) {
    for (const RemoteFile& file : *group) skeleton.all_bytes += file.size;
  }
  skeleton.weights = std::move(choice.weights);
  skeleton.fetched_bytes = reader.fetched_bytes();
  return skeleton;
}

}  // namespace ft::hub
