#include "prefix_cache/cache_folder.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "base/checksum.h"
#include "base/clock.h"
#include "base/log.h"

namespace ft {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEnding = ".ftcache";
constexpr std::string_view kPart = ".part";
constexpr const char* kLockFile = "foretoken.lock";

std::string name_of(std::span<const std::int32_t> tokens, bool drafts) {
  const std::string_view bytes(reinterpret_cast<const char*>(tokens.data()), tokens.size_bytes());
  return fingerprint(bytes) + (drafts ? "d" : "") + std::string(kEnding);
}

/// True if this folder gives such names; other files belong to others.
bool is_ours(std::string_view name) {
  if (!name.ends_with(kEnding)) return false;
  name.remove_suffix(kEnding.size());
  if (name.ends_with('d') && name.size() > kFingerprintDigits) name.remove_suffix(1);
  return name.size() == kFingerprintDigits &&
         name.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

Error unusable(const std::string& directory, const std::string& why) {
  return Error{Code::kIo,
               fmt::format("the cache folder {} cannot be used: {}; give --cache-dir a folder that "
                           "this user may write",
                           directory, why)};
}

}  // namespace

Result<std::unique_ptr<CacheFolder>> CacheFolder::open(const CacheFolderOptions& options) {
  for (int number = 1;; ++number) {
    CacheFolderOptions one = options;
    if (number > 1) one.directory += fmt::format("-{}", number);
    std::unique_ptr<CacheFolder> folder(new CacheFolder(std::move(one)));
    const Status taken = folder->take_lock();
    if (taken.ok()) return folder;
    if (!options.numbered || taken.error().code != Code::kBusy || number == kMaxNumbered)
      return taken.error();
  }
}

Status CacheFolder::take_lock() {
  const std::string& directory = options_.directory;
  std::error_code failed;
  const bool made = fs::create_directories(directory, failed);
  if (failed) return unusable(directory, failed.message());
  // It holds what users asked, so only this user may read it.
  if (made) fs::permissions(directory, fs::perms::owner_all, failed);
  if (!fs::is_directory(directory, failed)) return unusable(directory, "it is not a folder");
  lock_ = ::open(path(kLockFile).c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (lock_ < 0 || ::access(directory.c_str(), W_OK | X_OK) != 0) {
    return unusable(directory, std::strerror(errno));
  }
  if (::flock(lock_, LOCK_EX | LOCK_NB) == 0) return {};
  if (errno != EWOULDBLOCK)
    return unusable(directory, fmt::format("it cannot be locked ({})", std::strerror(errno)));
  return Error{
      Code::kBusy,
      fmt::format("another foretoken process uses the cache folder {}; stop it, or use another --cache-dir",
                  directory)};
}

CacheFolder::~CacheFolder() {
  if (writer_.joinable()) {
    std::unique_lock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
    const auto limit = std::chrono::duration<double, std::milli>(kLastWritesMs);
    if (!changed_.wait_for(lock, limit, [this] { return waiting_.empty() && writing_.empty(); })) {
      stop_ = true;
      give_up_waiting();
    }
    lock.unlock();
    writer_.join();
  }
  if (lock_ >= 0) ::close(lock_);
}

Status CacheFolder::start(Decoder& decoder) {
  FT_ASSERT(decoder_ == nullptr);
  decoder_ = &decoder;
  if (decoder.room().snapshots == 0) {
    return Error{Code::kInvalid,
                 fmt::format("the cache folder {} needs a memory cache for at least one snapshot; "
                             "raise --cache-mb or omit --cache-dir",
                             options_.directory)};
  }
  identity_ = fingerprint(options_.source + "\n" + decoder.state_identity());
  done_.reserve(2 * kMaxWaiting);
  FT_TRY(read_heads());
  make_room(0);
  writer_ = std::thread([this] { write_offered(); });
  return {};
}

/// Reads the file headers, the least recently used first, so that these are evicted first again.
Status CacheFolder::read_heads() {
  std::vector<std::pair<fs::file_time_type, std::string>> found;
  std::error_code failed;
  for (fs::directory_iterator entry(options_.directory, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    std::string name = entry->path().filename().string();
    std::error_code gone;
    if (is_ours(name)) found.emplace_back(entry->last_write_time(gone), name);
    // It is from a process that was killed, because this process has the lock.
    if (name.ends_with(kPart) && is_ours(name.substr(0, name.size() - kPart.size())))
      fs::remove(entry->path(), gone);
  }
  if (failed) return unusable(options_.directory, failed.message());
  std::sort(found.begin(), found.end());
  Dropped dropped;
  for (const auto& [time, name] : found) check_file(name, dropped);
  if (dropped.damaged > 0) {
    log_warn(fmt::format("the cache folder {}: {} damaged {} removed ({})", options_.directory,
                         dropped.damaged, dropped.damaged == 1 ? "file was" : "files were", dropped.first));
  }
  if (dropped.foreign > 0) {
    log_warn(fmt::format(
        "the cache folder {}: {} from another model, backend or program removed", options_.directory,
        dropped.foreign == 1 ? "1 file was" : fmt::format("{} files were", dropped.foreign)));
  }
  return {};
}

void CacheFolder::check_file(const std::string& name, Dropped& dropped) {
  const Result<CacheFileReader> file = CacheFileReader::open(path(name), identity_);
  if (file.ok()) return add({name, file->place(), OwnerSet(file->place().owner), file->bytes()});
  ++dropped_;
  ++(file.error().code == Code::kUnsupported ? dropped.foreign : dropped.damaged);
  if (dropped.first.empty()) dropped.first = name + ": " + file.error().message;
  std::error_code gone;
  fs::remove(path(name), gone);
}

// ---- what is stored

std::string CacheFolder::offer(std::span<const std::int32_t> tokens,
                               const std::shared_ptr<const Snapshot>& snapshot, const OwnerSet& owners) {
  if (static_cast<std::int64_t>(tokens.size()) < kMinTokens) return {};
  const bool drafts = snapshot->draft != nullptr;
  std::string name = name_of(tokens, true);
  const std::int64_t bytes = size_of(*snapshot, tokens.size());
  {
    const std::lock_guard lock(mutex_);
    // A file with a drafter's data serves as well.
    if (!drafts && !files_.contains(name)) name = name_of(tokens, false);
    if (!files_.contains(name)) {
      if (!takes(name, bytes)) return name;
      waiting_.push_back({name, {tokens.begin(), tokens.end()}, snapshot, bytes, owners});
      waiting_bytes_ += bytes;
      changed_.notify_all();
      return name;
    }
    for (const std::uint64_t owner : owners.all()) files_[name].owners.add(owner);
  }
  used(name);
  return name;
}

void CacheFolder::own(const std::string& name, std::uint64_t owner) {
  const std::lock_guard lock(mutex_);
  if (const auto at = files_.find(name); at != files_.end()) at->second.owners.add(owner);
}

std::int64_t CacheFolder::size_of(const Snapshot& snapshot, std::size_t tokens) const {
  const SnapshotRoom& room = decoder_->room();
  const auto blocks = [](std::span<const std::int32_t> list) {
    return static_cast<std::int64_t>(list.size());
  };
  constexpr std::int64_t kAround = 4096;
  return kAround + static_cast<std::int64_t>(tokens * sizeof(std::int32_t)) + room.snapshot_bytes +
         blocks(snapshot.timeline.blocks()) * room.block_bytes +
         blocks(snapshot.timeline.window_blocks()) * room.window_bytes +
         (snapshot.draft ? blocks(snapshot.draft->blocks()) * room.draft_block_bytes : 0);
}

/// True if the writer can take one more; the mutex must be held. A snapshot that waits cannot leave memory,
/// so those that wait may take half of the cache.
bool CacheFolder::takes(const std::string& name, std::int64_t bytes) {
  if (stopping_ || bytes > options_.limit_bytes || steady_ns() < rest_until_ns_) return false;
  if (writing_ == name) return false;
  for (const Offered& offered : waiting_) {
    if (offered.name == name) return false;
  }
  return waiting_.size() < kMaxWaiting &&
         (waiting_bytes_ == 0 || waiting_bytes_ + bytes <= decoder_->options().cache_bytes / 2);
}

void CacheFolder::collect() {
  const std::lock_guard lock(mutex_);
  done_.clear();  // keeps its capacity: the writer allocates nothing
}

void CacheFolder::used(const std::string& name) {
  constexpr std::int64_t kTouchNs = 60'000'000'000;
  {
    const std::lock_guard lock(mutex_);
    const auto at = files_.find(name);
    if (at == files_.end()) return;
    at->second.used = ++clock_;
    const std::int64_t now = steady_ns();
    if (at->second.touched_ns != 0 && now - at->second.touched_ns < kTouchNs) return;
    at->second.touched_ns = now;
  }
  ::utimensat(AT_FDCWD, path(name).c_str(), nullptr, AT_SYMLINK_NOFOLLOW);  // keeps the order after a restart
}

void CacheFolder::clear() {
  std::vector<std::string> names;
  {
    std::unique_lock lock(mutex_);
    ++generation_;
    stop_ = true;
    give_up_waiting();
    changed_.wait(lock, [this] { return sharing_ == nullptr; });
    stop_ = false;
    for (const auto& [name, file] : files_) names.push_back(name);
    by_place_.clear();
    files_.clear();
    bytes_ = 0;
  }
  std::error_code gone;
  for (const std::string& name : names) fs::remove(path(name), gone);
  collect();
}

void CacheFolder::clear(std::uint64_t owner) {
  std::vector<std::string> names;
  const auto only_this = [owner](const OwnerSet& owners) {
    return owners.has(owner) && owners.all().size() == 1;
  };
  {
    std::unique_lock lock(mutex_);
    give_up_waiting(owner);
    if (only_this(writing_owners_)) {
      ++generation_;
      stop_ = true;
      changed_.wait(lock, [this] { return sharing_ == nullptr; });
      stop_ = false;
    }
    for (auto& [name, file] : files_) {
      if (only_this(file.owners)) names.push_back(name);
      file.owners.remove(owner);
    }
    for (const std::string& name : names) forget(name);
  }
  std::error_code gone;
  for (const std::string& name : names) fs::remove(path(name), gone);
  collect();
}

// ---- what is found

std::optional<CacheFolder::Match> CacheFolder::find(std::span<const std::int32_t> prompt, bool drafts,
                                                    std::int64_t known, double row_ms, bool alone,
                                                    std::optional<std::uint64_t> only) {
  const double max_ms = alone ? kMaxLoadAloneMs : kMaxLoadMs;
  const auto longest = static_cast<std::int64_t>(prompt.size()) - 1;  // the last token is the pending one
  std::int64_t length = known + kMinTokens - 1;
  const File* best = nullptr;
  std::uint64_t before = 0;
  const std::lock_guard lock(mutex_);
  for (std::int64_t depth = 0; depth <= longest && !files_.empty(); depth += kBlockRows) {
    const auto rest = prompt.subspan(static_cast<std::size_t>(depth));
    const auto [first, last] = by_place_.equal_range(before);
    for (auto at = first; at != last; ++at) {
      const CachePlace& place = at->second->place;
      if (place.depth != depth || (drafts && !place.drafts)) continue;
      if (only && !at->second->owners.has(*only)) continue;
      const auto same = std::ranges::mismatch(place.tail, rest).in1 - place.tail.begin();
      const std::int64_t model_info = std::min<std::int64_t>(depth + same, longest);
      if (model_info < place.low || model_info <= length ||
          !worth(*at->second, model_info - known, row_ms, max_ms))
        continue;
      best = at->second;
      length = model_info;
    }
    if (longest - depth < kBlockRows) break;
    before = CachePlace::next(before, rest.first(kBlockRows));
  }
  if (best == nullptr) return {};
  Match match{best->name, {prompt.begin(), prompt.begin() + best->place.depth}, length, best->owners, max_ms};
  match.tokens.insert(match.tokens.end(), best->place.tail.begin(), best->place.tail.end());
  return match;
}

/// True if reading takes less time than computing, and not too long.
bool CacheFolder::worth(const File& file, std::int64_t tokens, double row_ms, double max_ms) {
  const double ms = static_cast<double>(file.bytes) * byte_ms_;
  if (ms <= max_ms && (row_ms <= 0 || ms <= static_cast<double>(tokens) * row_ms)) return true;
  byte_ms_ *= 0.95;  // one slow moment of the disk must not count for ever
  return false;
}

Result<Snapshot> CacheFolder::load(const Match& match) {
  const std::int64_t start = steady_ns();
  std::int64_t bytes = 0;
  Result<Snapshot> snapshot = read(match, bytes);
  const double ms = static_cast<double>(steady_ns() - start) * 1e-6;
  if (bytes > 0) byte_ms_ += 0.3 * (ms / static_cast<double>(bytes) - byte_ms_);
  if (!snapshot.ok()) {
    const Code code = snapshot.error().code;
    if (code == Code::kExhausted || code == Code::kBusy) return snapshot;
    return drop(match.name, snapshot.error().message);
  }
  used(match.name);
  const std::lock_guard lock(mutex_);
  ++loads_;
  return snapshot;
}

/// `bytes`: number of bytes read from the file.
Result<Snapshot> CacheFolder::read(const Match& match, std::int64_t& bytes) {
  FT_ASSIGN(CacheFileReader file, CacheFileReader::open(path(match.name), identity_));
  FT_TRY(file.begin(steady_ns() + static_cast<std::int64_t>(match.max_ms * 1e6)));
  std::vector<std::int32_t> tokens;
  const bool read = get_list(file, tokens);
  if (read && tokens != match.tokens) return Error{Code::kCorrupt, "its tokens differ from its header"};
  Result<Snapshot> snapshot = decoder_->read_snapshot(file);
  bytes = file.bytes() - file.left();
  if (!file.error().message.empty()) return file.error();
  if (!snapshot.ok()) return snapshot;
  if (snapshot->high() != file.place().high || snapshot->low() > file.place().low ||
      (snapshot->draft != nullptr) != file.place().drafts) {
    return Error{Code::kCorrupt, "its snapshot differs from its header"};
  }
  return snapshot;
}

Error CacheFolder::drop(const std::string& name, const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    if (!files_.contains(name)) return Error{Code::kCorrupt, why};  // evicted meanwhile
    forget(name);
    ++dropped_;
  }
  std::error_code gone;
  fs::remove(path(name), gone);
  log_warn(fmt::format("the cache folder {}: {} was removed: {}", options_.directory, name, why));
  return Error{Code::kCorrupt, why};
}

void CacheFolder::report(CacheReport& report) const {
  const std::lock_guard lock(mutex_);
  report.disk = true;
  report.disk_files = static_cast<std::int64_t>(files_.size());
  report.disk_bytes = bytes_, report.disk_limit_bytes = options_.limit_bytes;
  report.disk_hits = loads_, report.disk_written = written_, report.disk_dropped = dropped_;
}

}  // namespace ft
