// ResponseStore: answers of POST /v1/responses for later use by previous_response_id, GET, and DELETE
// /v1/responses/{id}. In memory only. Beyond kMaxStoredResponses or kMaxStoredBytes, the key that has most
// loses its least recently used entry, so no key can push out the entries of one with less. One lock per call
// makes it safe from any thread. An unknown id is nullopt, and so is one whose entry the caller may not use.
#pragma once

#include <cstddef>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "api/caller.h"

namespace ft::api {

inline constexpr std::size_t kMaxStoredResponses = 4'096;
inline constexpr std::size_t kMaxStoredBytes = std::size_t{64} << 20;

struct StoredResponse {
  std::string body;         // the response object as sent
  std::string history;      // JSON list: all input items so far, then the output items
  std::string deltas = {};  // JSON list: for each output item, the bytes of each piece of its text
  std::size_t inputs = 0;   // how many items of the history are input
  std::size_t bytes() const { return body.size() + history.size() + deltas.size(); }
};

class ResponseStore {
 public:
  explicit ResponseStore(std::size_t most = kMaxStoredResponses, std::size_t most_bytes = kMaxStoredBytes)
      : most_(most), most_bytes_(most_bytes) {}

  /// An entry that exceeds the byte limit by itself is not stored. It belongs to the caller's key.
  void put(const std::string& id, StoredResponse response, const Caller& caller);
  /// Also marks the entry as the most recently used.
  std::optional<StoredResponse> get(const std::string& id, const Caller& caller);
  bool erase(const std::string& id, const Caller& caller);
  /// 0 if the id is not stored.
  std::size_t history_bytes(const std::string& id, const Caller& caller) const;

  std::size_t size() const;
  std::size_t bytes() const;

 private:
  struct Entry {
    std::string id;
    StoredResponse response;
    std::uint64_t owner = 0;
  };
  using Places = std::unordered_map<std::string, std::list<Entry>::iterator>;
  Places::const_iterator find(const std::string& id, const Caller& caller) const;
  void drop(std::list<Entry>::iterator entry);
  void drop_one();

  const std::size_t most_, most_bytes_;
  mutable std::mutex mutex_;
  std::list<Entry> entries_;  // most recently used first
  Places places_;
  struct Share {
    std::size_t entries = 0, bytes = 0;
  };
  std::unordered_map<std::uint64_t, Share> shares_;  // by owner
  std::size_t bytes_ = 0;
};

}  // namespace ft::api
