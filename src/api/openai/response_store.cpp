#include "api/openai/response_store.h"

#include <algorithm>
#include <utility>

namespace ft::api {

void ResponseStore::drop(std::list<Entry>::iterator entry) {
  bytes_ -= entry->response.bytes();
  const auto share = shares_.find(entry->owner);
  share->second.bytes -= entry->response.bytes();
  if (--share->second.entries == 0) shares_.erase(share);
  places_.erase(entry->id);
  entries_.erase(entry);
}

void ResponseStore::drop_one() {
  const auto part = [this](const Share& share) {
    return std::max(static_cast<double>(share.entries) / static_cast<double>(most_),
                    static_cast<double>(share.bytes) / static_cast<double>(most_bytes_));
  };
  const auto largest = std::ranges::max_element(
      shares_, [&](const auto& a, const auto& b) { return part(a.second) < part(b.second); });
  const auto oldest =
      std::find_if(entries_.rbegin(), entries_.rend(),
                   [owner = largest->first](const Entry& entry) { return entry.owner == owner; });
  drop(std::prev(oldest.base()));
}

/// The end for an id of another key.
ResponseStore::Places::const_iterator ResponseStore::find(const std::string& id, const Caller& caller) const {
  const auto known = places_.find(id);
  return known != places_.end() && caller.may_use(known->second->owner) ? known : places_.end();
}

void ResponseStore::put(const std::string& id, StoredResponse response, const Caller& caller) {
  const std::lock_guard lock(mutex_);
  if (const auto known = places_.find(id); known != places_.end()) drop(known->second);
  if (response.bytes() > most_bytes_) return;
  bytes_ += response.bytes();
  Share& share = shares_[caller.owner];
  share.bytes += response.bytes();
  ++share.entries;
  entries_.push_front({id, std::move(response), caller.owner});
  places_[id] = entries_.begin();
  while (entries_.size() > most_ || bytes_ > most_bytes_) drop_one();
}

std::optional<StoredResponse> ResponseStore::get(const std::string& id, const Caller& caller) {
  const std::lock_guard lock(mutex_);
  const auto known = find(id, caller);
  if (known == places_.end()) return std::nullopt;
  entries_.splice(entries_.begin(), entries_, known->second);
  return known->second->response;
}

std::size_t ResponseStore::history_bytes(const std::string& id, const Caller& caller) const {
  const std::lock_guard lock(mutex_);
  const auto known = find(id, caller);
  return known == places_.end() ? 0 : known->second->response.history.size();
}

bool ResponseStore::erase(const std::string& id, const Caller& caller) {
  const std::lock_guard lock(mutex_);
  const auto known = find(id, caller);
  if (known == places_.end()) return false;
  drop(known->second);
  return true;
}

std::size_t ResponseStore::size() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

std::size_t ResponseStore::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace ft::api
