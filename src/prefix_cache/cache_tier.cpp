#include "prefix_cache/cache_tier.h"

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
constexpr std::string_view kPart = DiskStore::kPart;
constexpr const char* kRowsGone = "rows that it shares with others are gone";
constexpr const char* kLockFile = "foretoken.lock";

std::string name_of(std::span<const std::int32_t> tokens, bool drafts) {
  const std::string_view bytes(reinterpret_cast<const char*>(tokens.data()), tokens.size_bytes());
  return fingerprint(bytes) + (drafts ? "d" : "") + std::string(kEnding);
}

/// True for names that this folder gives; files with other names are left alone.
bool is_ours(std::string_view name, std::string_view ending) {
  if (!name.ends_with(ending)) return false;
  name.remove_suffix(ending.size());
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

CacheTier::CacheTier(CacheTierOptions options)
    : options_(std::move(options)),
      store_(options_.directory.empty() ? std::unique_ptr<CacheStore>(std::make_unique<MemoryStore>())
                                        : std::make_unique<DiskStore>(options_.directory)),
      rows_(*store_) {}

std::string CacheTier::title() const {
  return options_.directory.empty() ? "the cache in the machine's memory"
                                    : "the cache folder " + options_.directory;
}

Result<std::unique_ptr<CacheTier>> CacheTier::open(const CacheTierOptions& options) {
  if (options.directory.empty()) return std::unique_ptr<CacheTier>(new CacheTier(options));
  for (int number = 1;; ++number) {
    CacheTierOptions one = options;
    if (number > 1) one.directory += fmt::format("-{}", number);
    std::unique_ptr<CacheTier> folder(new CacheTier(std::move(one)));
    const Status taken = folder->take_lock();
    if (taken.ok()) return folder;
    if (!options.numbered || taken.error().code != Code::kBusy || number == kMaxNumbered)
      return taken.error();
  }
}

Status CacheTier::take_lock() {
  const std::string& directory = options_.directory;
  std::error_code failed;
  const bool made = fs::create_directories(directory, failed);
  if (failed) return unusable(directory, failed.message());
  // It contains users' prompts, so only this user may read it.
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

CacheTier::~CacheTier() {
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

Status CacheTier::start(const Snapshots& snapshots) {
  FT_ASSERT(snapshots_ == nullptr);
  snapshots_ = &snapshots;
  if (snapshots.room().snapshots == 0) {
    return Error{Code::kInvalid, fmt::format("{} needs a memory cache for at least one snapshot; "
                                             "raise --cache-mb or omit --cache-dir",
                                             title())};
  }
  identity_ = fingerprint(options_.source + "\n" + snapshots.state_identity());
  done_.reserve(2 * kMaxWaiting);
  if (!options_.directory.empty()) FT_TRY(read_heads());
  make_room(0);
  writer_ = std::thread([this] { write_offered(); });
  return {};
}

/// Reads the file headers, the least recently used first, so that these are evicted first again.
Status CacheTier::read_heads() {
  std::vector<std::pair<fs::file_time_type, std::string>> found;
  std::vector<std::string> rows;
  std::error_code failed;
  for (fs::directory_iterator entry(options_.directory, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    std::string name = entry->path().filename().string();
    std::error_code gone;
    if (is_ours(name, kEnding)) found.emplace_back(entry->last_write_time(gone), name);
    if (is_ours(name, RowGroup::kEnding)) rows.push_back(name);
    if (!name.ends_with(kPart)) continue;
    // The file is from a process that was killed, because this process has the lock.
    const auto whole = std::string_view(name).substr(0, name.size() - kPart.size());
    if (is_ours(whole, kEnding) || is_ours(whole, RowGroup::kEnding)) fs::remove(entry->path(), gone);
  }
  if (failed) return unusable(options_.directory, failed.message());
  std::sort(found.begin(), found.end());
  for (const std::string& name : rows) {
    const Result<CacheFileReader> file = CacheFileReader::open(*store_, name, identity_);
    if (file.ok()) rows_.found(name.substr(0, kFingerprintDigits), file->bytes());
    if (!file.ok()) store_->remove(name);  // the snapshot that needs it reports the error
  }
  Dropped dropped;
  for (const auto& [time, name] : found) check_file(name, dropped);
  rows_.release_unneeded();
  rows_.sweep();  // the writer has not begun
  if (dropped.damaged > 0) {
    log_warn(fmt::format("{}: {} damaged {} removed ({})", title(), dropped.damaged,
                         dropped.damaged == 1 ? "file was" : "files were", dropped.first));
  }
  if (dropped.foreign > 0) {
    log_warn(
        fmt::format("{}: {} from another model, backend or program removed", title(),
                    dropped.foreign == 1 ? "1 file was" : fmt::format("{} files were", dropped.foreign)));
  }
  return {};
}

void CacheTier::check_file(const std::string& name, Dropped& dropped) {
  const Result<CacheFileReader> file = CacheFileReader::open(*store_, name, identity_);
  const auto has_rows = [this](const std::string& rows) { return rows_.has(rows); };
  if (file.ok() && std::ranges::all_of(file->shared(), has_rows)) {
    rows_.hold(file->shared());
    return add({name, file->place(), OwnerSet(file->place().owner), file->bytes(), file->shared()});
  }
  ++dropped_;
  const bool foreign = !file.ok() && file.error().code == Code::kUnsupported;
  ++(foreign ? dropped.foreign : dropped.damaged);
  if (dropped.first.empty()) dropped.first = name + ": " + (file.ok() ? kRowsGone : file.error().message);
  store_->remove(name);
}

// ---- storing

std::string CacheTier::offer(std::span<const std::int32_t> tokens,
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

void CacheTier::own(const std::string& name, std::uint64_t owner) {
  const std::lock_guard lock(mutex_);
  if (const auto at = files_.find(name); at != files_.end()) at->second.owners.add(owner);
}

std::int64_t CacheTier::size_of(const Snapshot& snapshot, std::size_t tokens) const {
  const SnapshotRoom& room = snapshots_->room();
  const auto blocks = [](std::span<const std::int32_t> list) {
    return static_cast<std::int64_t>(list.size());
  };
  constexpr std::int64_t kAround = 4096;
  return kAround + static_cast<std::int64_t>(tokens * sizeof(std::int32_t)) + room.snapshot_bytes +
         blocks(snapshot.timeline.blocks()) * room.block_bytes +
         blocks(snapshot.timeline.window_blocks()) * room.window_bytes +
         (snapshot.draft ? blocks(snapshot.draft->blocks()) * room.draft_block_bytes : 0);
}

/// True if the writer can take one more; the mutex must be held. A waiting snapshot cannot leave memory, so
/// waiting snapshots may take half of the cache. The oldest of them make room, since a conversation's newest
/// snapshot is the most useful one.
bool CacheTier::takes(const std::string& name, std::int64_t bytes) {
  if (stopping_ || bytes > options_.limit_bytes || steady_ns() < rest_until_ns_) return false;
  if (writing_ == name) return false;
  for (const Offered& offered : waiting_) {
    if (offered.name == name) return false;
  }
  const auto fits = [&] { return waiting_bytes_ + bytes <= snapshots_->max_bytes() / 2; };
  while (!waiting_.empty() && (waiting_.size() >= kMaxWaiting || !fits())) {
    waiting_bytes_ -= waiting_.front().bytes;
    done_.push_back(std::move(waiting_.front().snapshot));
    waiting_.pop_front();
  }
  return waiting_bytes_ == 0 || fits();
}

void CacheTier::collect() {
  const std::lock_guard lock(mutex_);
  done_.clear();  // keeps its capacity: the writer allocates nothing
}

void CacheTier::used(const std::string& name) {
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
  store_->touch(name);  // keeps the order after a restart
}

void CacheTier::clear() {
  std::vector<std::string> names;
  {
    std::unique_lock lock(mutex_);
    ++generation_;
    stop_ = true;
    give_up_waiting();
    changed_.wait(lock, [this] { return sharing_ == nullptr; });
    stop_ = false;
    for (const auto& [name, file] : files_) names.push_back(name);
    for (const std::string& name : names) forget(name);
  }
  remove(names);
  collect();
}

void CacheTier::clear(std::uint64_t owner) {
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
  remove(names);
  collect();
}

// ---- finding

std::optional<CacheTier::Match> CacheTier::find(std::span<const std::int32_t> prompt, bool drafts,
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
bool CacheTier::worth(const File& file, std::int64_t tokens, double row_ms, double max_ms) {
  const double ms = static_cast<double>(file.bytes + rows_.bytes_of(file.shared)) * byte_ms_;
  if (ms <= max_ms && (row_ms <= 0 || ms <= static_cast<double>(tokens) * row_ms)) return true;
  byte_ms_ *= 0.95;  // one slow moment of the disk must not have an effect for ever
  return false;
}

Result<Snapshot> CacheTier::load(const Match& match) {
  const std::int64_t start = steady_ns();
  std::int64_t bytes = 0;
  std::string bad_rows;
  Result<Snapshot> snapshot = read(match, bytes, bad_rows);
  const double ms = static_cast<double>(steady_ns() - start) * 1e-6;
  if (bytes > 0) byte_ms_ += 0.3 * (ms / static_cast<double>(bytes) - byte_ms_);
  if (!snapshot.ok()) {
    const Code code = snapshot.error().code;
    if (code == Code::kExhausted || code == Code::kBusy) return snapshot;
    return drop(match.name, bad_rows, snapshot.error().message);
  }
  used(match.name);
  const std::lock_guard lock(mutex_);
  ++loads_;
  return snapshot;
}

/// `bytes`: number of bytes read from the files. `bad_rows`: the shared file that caused an error.
Result<Snapshot> CacheTier::read(const Match& match, std::int64_t& bytes, std::string& bad_rows) {
  const std::int64_t deadline = steady_ns() + static_cast<std::int64_t>(match.max_ms * 1e6);
  FT_ASSIGN(CacheFileReader file, CacheFileReader::open(*store_, match.name, identity_));
  FT_TRY(file.begin(deadline));
  std::vector<std::int32_t> tokens;
  const bool read = get_list(file, tokens);
  if (read && tokens != match.tokens) return Error{Code::kCorrupt, "its tokens differ from its header"};
  SnapshotReader source(*store_, file, match.tokens, identity_, deadline);
  Result<Snapshot> snapshot = snapshots_->read(source);
  bytes = file.bytes() - file.left() + source.bytes();
  bad_rows = source.bad_rows();
  if (!source.error().message.empty()) return source.error();
  if (!snapshot.ok()) return snapshot;
  if (snapshot->high() != file.place().high || snapshot->low() > file.place().low ||
      (snapshot->draft != nullptr) != file.place().drafts) {
    return Error{Code::kCorrupt, "its snapshot differs from its header"};
  }
  return snapshot;
}

Error CacheTier::drop(const std::string& name, const std::string& bad_rows, const std::string& why) {
  std::vector<std::string> names;
  {
    const std::lock_guard lock(mutex_);
    if (!files_.contains(name)) return Error{Code::kCorrupt, why};  // evicted meanwhile
    for (const auto& [other, file] : files_) {
      const bool shares = !bad_rows.empty() && std::ranges::find(file.shared, bad_rows) != file.shared.end();
      if (other == name || shares) names.push_back(other);
    }
    for (const std::string& one : names) forget(one);
    dropped_ += static_cast<std::int64_t>(names.size());
  }
  remove(names);
  const bool one = names.size() == 1;
  log_warn(fmt::format("{}: {} {} removed: {}", title(),
                       one ? name : fmt::format("{} files that share rows", names.size()),
                       one ? "was" : "were", why));
  return Error{Code::kCorrupt, why};
}

CacheTierReport CacheTier::report() const {
  const std::lock_guard lock(mutex_);
  CacheTierReport report;
  report.files = static_cast<std::int64_t>(files_.size());
  report.bytes = bytes_ + rows_.bytes(), report.limit_bytes = options_.limit_bytes;
  report.hits = loads_, report.written = written_, report.dropped = dropped_;
  return report;
}

}  // namespace ft
