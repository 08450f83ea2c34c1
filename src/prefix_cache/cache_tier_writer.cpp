// The tier's list of files, and the thread that adds to it.
#include <algorithm>
#include <exception>
#include <fmt/format.h>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "prefix_cache/cache_tier.h"

namespace ft {

void CacheTier::write_offered() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || !waiting_.empty() || rows_.to_sweep(); });
    if (rows_.to_sweep()) {
      lock.unlock();
      rows_.sweep();
      lock.lock();
      changed_.notify_all();
      continue;
    }
    if (waiting_.empty()) return;
    Offered offered = std::move(waiting_.back());
    waiting_.pop_back();
    writing_ = offered.name, writing_owners_ = std::move(offered.owners);
    sharing_ = std::move(offered.snapshot);  // this thread must not be the last to release it
    const Snapshot& snapshot = *sharing_;
    const std::int64_t generation = generation_;
    lock.unlock();
    try {
      write(offered, snapshot, generation);
    } catch (const std::exception& failure) {  // out of memory
      note_failure(failure.what());
    }
    let_go(offered.bytes);
    lock.lock();
    writing_.clear(), writing_owners_ = {};
    changed_.notify_all();
  }
}

/// The engine thread will release the snapshot, because timelines belong to that thread.
void CacheTier::let_go(std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (sharing_ == nullptr) return;
  done_.push_back(std::exchange(sharing_, nullptr));
  waiting_bytes_ -= bytes;
  changed_.notify_all();
}

/// Drops all of them, or those that belong to this owner alone. The mutex must be held.
void CacheTier::give_up_waiting(std::optional<std::uint64_t> owner) {
  for (Offered& offered : waiting_) {
    if (owner) offered.owners.remove(*owner);
    if (owner && !offered.owners.empty()) continue;
    waiting_bytes_ -= offered.bytes;
    done_.push_back(std::move(offered.snapshot));
  }
  std::erase_if(waiting_, [](const Offered& offered) { return offered.snapshot == nullptr; });
}

void CacheTier::write(const Offered& offered, const Snapshot& snapshot, std::int64_t generation) {
  CachePlace place = CachePlace::of(offered.tokens, snapshot.low(), snapshot.draft != nullptr);
  if (!writing_owners_.empty()) place.owner = writing_owners_.all().front();
  const SnapshotRoom& room = snapshots_->room();
  const std::int64_t group = Timeline::kSharedRows / kBlockRows * room.block_bytes;
  SnapshotWriter writer(
      {*store_, rows_, identity_, options_.limit_bytes, stop_, [this, group] { make_room(group); }},
      offered.name, offered.tokens);
  make_room(room.snapshot_bytes);
  if (put_list<std::int32_t>(writer, offered.tokens)) snapshot.write_to(writer);
  let_go(offered.bytes);
  const Result<SnapshotWriter::Written> written = writer.finish(place);
  if (!written.ok()) {
    if (written.error().code != Code::kCancelled) note_failure(written.error().message);
    return;
  }
  bool wanted = false;
  {
    const std::lock_guard lock(mutex_);  // not held during disk work, because the engine needs it too
    wanted = generation == generation_;  // not cleared meanwhile
    if (wanted) {
      add({offered.name, place, writing_owners_, written->bytes, written->shared});
      ++written_;
    }
  }
  if (!wanted) {
    rows_.release(written->shared);
    store_->remove(offered.name);
  }
  make_room(0);
  if (std::exchange(failing_, false)) log_info(fmt::format("{} can be written again", title()));
}

/// Logs the failure once and pauses, because a full disk stays full for a while.
void CacheTier::note_failure(const std::string& why) {
  if (!std::exchange(failing_, true)) {
    log_warn(
        fmt::format("{}: cannot store a prompt ({}); the server continues and will retry", title(), why));
  }
  const std::lock_guard lock(mutex_);
  rest_until_ns_ = steady_ns() + static_cast<std::int64_t>(options_.rest_ms * 1e6);
  give_up_waiting();
}

/// The mutex must be held, unless there is no writer yet.
void CacheTier::add(File file) {
  forget(file.name);
  file.used = ++clock_;
  bytes_ += file.bytes;
  const std::string name = file.name;
  const File& kept = files_[name] = std::move(file);
  by_place_.emplace(kept.place.before, &kept);
}

/// The mutex must be held, unless there is no writer yet.
void CacheTier::forget(const std::string& name) {
  const auto at = files_.find(name);
  if (at == files_.end()) return;
  const auto [first, last] = by_place_.equal_range(at->second.place.before);
  const auto place = std::find_if(first, last, [&](const auto& pair) { return pair.second == &at->second; });
  if (place != last) by_place_.erase(place);
  bytes_ -= at->second.bytes;
  rows_.release(at->second.shared);
  files_.erase(at);
}

/// Files that were forgotten.
void CacheTier::remove(std::span<const std::string> names) {
  for (const std::string& name : names) store_->remove(name);
  const std::lock_guard lock(mutex_);
  changed_.notify_all();  // for the rows that they shared
}

/// Makes room for `bytes` more by removing the least recently used files.
void CacheTier::make_room(std::int64_t bytes) {
  std::vector<std::string> names;
  {
    const std::lock_guard lock(mutex_);
    while (!files_.empty() && bytes_ + rows_.bytes() + bytes > options_.limit_bytes) {
      const auto oldest = std::min_element(files_.begin(), files_.end(), [](const auto& a, const auto& b) {
        return a.second.used < b.second.used;
      });
      names.push_back(oldest->first);
      forget(names.back());
    }
  }
  remove(names);
}

void CacheTier::flush() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return waiting_.empty() && writing_.empty() && !rows_.to_sweep(); });
}

}  // namespace ft
