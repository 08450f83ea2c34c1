#include "api/openai/response_store.h"

#include <utility>

namespace ft::api {

void ResponseStore::drop(std::list<Entry>::iterator entry) {
  bytes_ -= entry->response.bytes();
  places_.erase(entry->id);
  entries_.erase(entry);
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
  entries_.push_front({id, std::move(response), caller.owner});
  places_[id] = entries_.begin();
  while (entries_.size() > most_ || bytes_ > most_bytes_) drop(std::prev(entries_.end()));
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
