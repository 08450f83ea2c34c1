#include "prefix_cache/shared_rows.h"

#include <algorithm>
#include <utility>

#include "base/checksum.h"

namespace ft {
namespace {

/// Small enough that waiting for a group's first piece delays nobody.
constexpr std::int64_t kNoDeadline = std::int64_t{1} << 62;

}  // namespace

std::optional<RowGroup> RowGroups::next(std::string_view kind, std::int64_t end) {
  if (end > static_cast<std::int64_t>(tokens_.size())) return {};
  auto at = chains_.find(kind);
  if (at == chains_.end()) at = chains_.emplace(kind, Chain{}).first;
  Chain& chain = at->second;
  if (end <= chain.at) return {};
  RowGroup group;
  group.before = chain.before;
  group.tokens =
      tokens_.subspan(static_cast<std::size_t>(chain.at), static_cast<std::size_t>(end - chain.at));
  std::string text = group.before + std::string(kind) + '\0';
  text.append(reinterpret_cast<const char*>(group.tokens.data()), group.tokens.size_bytes());
  group.name = fingerprint(text);
  chain = {group.name, end};
  return group;
}

// ---- the list of files

void SharedRows::found(const std::string& name, std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  files_[name].bytes = bytes;
  bytes_ += bytes;
}

bool SharedRows::has(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  return files_.contains(name);
}

void SharedRows::hold(std::span<const std::string> names) {
  const std::lock_guard lock(mutex_);
  for (const std::string& name : names) ++files_.at(name).needed;
}

void SharedRows::release(std::span<const std::string> names) {
  const std::lock_guard lock(mutex_);
  for (const std::string& name : names) {
    const auto at = files_.find(name);
    if (at == files_.end() || --at->second.needed > 0) continue;
    bytes_ -= at->second.bytes;
    files_.erase(at);
    gone_.push_back(name);
  }
}

void SharedRows::release_unneeded() {
  std::vector<std::string> unneeded;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [name, file] : files_) {
      if (file.needed == 0) unneeded.push_back(name);
    }
  }
  release(unneeded);
}

bool SharedRows::to_sweep() const {
  const std::lock_guard lock(mutex_);
  return !gone_.empty();
}

void SharedRows::sweep() {
  std::vector<std::string> gone;
  {
    const std::lock_guard lock(mutex_);
    gone = gone_;
  }
  for (const std::string& name : gone) store_.remove(RowGroup{name, {}, {}}.file());
  const std::lock_guard lock(mutex_);
  gone_.erase(gone_.begin(), gone_.begin() + std::ssize(gone));
}

SharedRows::Known SharedRows::hold(const RowGroup& group, const std::string& identity) {
  {
    const std::lock_guard lock(mutex_);
    const auto at = files_.find(group.name);
    if (at == files_.end()) return Known::kAbsent;
    ++at->second.needed;  // it is kept while it is read
    if (at->second.compared) return Known::kHeld;
  }
  const Result<CacheFileReader> file = open_rows(store_, group, identity, kNoDeadline);
  if (!file.ok()) {
    release({&group.name, 1});
    return Known::kOther;
  }
  const std::lock_guard lock(mutex_);
  files_.at(group.name).compared = true;
  return Known::kHeld;
}

void SharedRows::add(const std::string& name, std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  File& file = files_[name];
  bytes_ += bytes - file.bytes;
  file.bytes = bytes;
  file.needed += 1;
  std::erase(gone_, name);  // room for this snapshot was made by removing another with these rows
}

std::int64_t SharedRows::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

std::int64_t SharedRows::bytes_of(std::span<const std::string> names) const {
  const std::lock_guard lock(mutex_);
  std::int64_t bytes = 0;
  for (const std::string& name : names) {
    if (const auto at = files_.find(name); at != files_.end()) bytes += at->second.bytes;
  }
  return bytes;
}

Result<CacheFileReader> open_rows(CacheStore& store, const RowGroup& group, const std::string& identity,
                                  std::int64_t deadline_ns) {
  FT_ASSIGN(CacheFileReader file, CacheFileReader::open(store, group.file(), identity));
  FT_TRY(file.begin(deadline_ns));
  std::vector<std::int32_t> tokens;
  std::vector<char> before;
  if (!get_list(file, before) || !get_list(file, tokens)) return file.error();
  if (!std::ranges::equal(tokens, group.tokens) || !std::ranges::equal(before, group.before)) {
    return Error{Code::kCorrupt, "its rows are of other tokens"};
  }
  return file;
}

// ---- writing

SnapshotWriter::SnapshotWriter(const Target& target, const std::string& name,
                               std::span<const std::int32_t> tokens)
    : target_(target), main_(target.store, name, target.most_bytes, target.stop), groups_(tokens) {}

SnapshotWriter::~SnapshotWriter() { target_.rows.release(held_); }

bool SnapshotWriter::put(std::span<const std::byte> bytes) {
  if (failure_) return false;
  return rows_ ? rows_->put(bytes) : main_.put(bytes);
}

bool SnapshotWriter::begin_shared(std::string_view kind, std::int64_t tokens) {
  group_ = groups_.next(kind, tokens);
  if (!group_) return true;
  const SharedRows::Known known = target_.rows.hold(*group_, target_.identity);
  if (known == SharedRows::Known::kHeld) {
    held_.push_back(group_->name);
    return false;
  }
  if (known == SharedRows::Known::kOther) failure_ = Error{Code::kCorrupt, "its rows are of other tokens"};
  if (failure_) return true;
  target_.before_rows();
  rows_.emplace(target_.store, group_->file(), target_.most_bytes, target_.stop);
  put_list<char>(*rows_, group_->before);
  put_list<std::int32_t>(*rows_, group_->tokens);
  return true;
}

void SnapshotWriter::end_shared() {
  if (!rows_) return;
  CachePlace place;  // the tokens in the body say which rows these are
  place.low = place.high = 1;
  const Result<std::int64_t> bytes = rows_->finish(place, target_.identity);
  rows_.reset();
  if (!bytes.ok()) {
    failure_ = bytes.error();
    return;
  }
  target_.rows.add(group_->name, *bytes);
  held_.push_back(group_->name);
}

Result<SnapshotWriter::Written> SnapshotWriter::finish(const CachePlace& place) {
  if (rows_) end_shared();  // after an earlier write failed: this returns the reason
  if (failure_) return *failure_;
  FT_ASSIGN(const std::int64_t bytes, main_.finish(place, target_.identity, held_));
  return Written{bytes, std::exchange(held_, {})};
}

// ---- reading

void SnapshotReader::fail(const Error& error, const std::string& rows) {
  if (!error_.message.empty()) return;
  error_ = error;
  bad_rows_ = rows;
}

bool SnapshotReader::get(std::span<std::byte> out) {
  if (!error_.message.empty()) return false;
  const bool got = rows_ ? rows_->get(out) : main_.get(out);
  if (!got) fail(rows_ ? rows_->error() : main_.error(), rows_ ? name_ : "");
  return got;
}

void SnapshotReader::begin_shared(std::string_view kind, std::int64_t tokens) {
  const std::optional<RowGroup> group = groups_.next(kind, tokens);
  if (!group || !error_.message.empty()) return;
  Result<CacheFileReader> file = open_rows(store_, *group, identity_, deadline_ns_);
  if (!file.ok()) return fail(file.error(), group->name);
  name_ = group->name;
  bytes_ += file->bytes();
  rows_.emplace(std::move(*file));
}

void SnapshotReader::end_shared() {
  if (!rows_) return;
  if (rows_->left() > 0) fail({Code::kCorrupt, "it is longer than its rows"}, name_);
  rows_.reset();
}

}  // namespace ft
