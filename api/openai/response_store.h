// ResponseStore: answers of POST /v1/responses that a client may name later: previous_response_id, GET and
// DELETE /v1/responses/{id}. In memory only; the least recently used go first when there are more than
// kMaxStoredResponses of them or they hold more than kMaxStoredBytes. Owner: api::Served. Threads: any, one
// lock a call. Cost: a hash look-up and a copy of the texts. Errors: none; what is not there is nullopt.
#pragma once

#include <cstddef>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace ft::api {

inline constexpr std::size_t kMaxStoredResponses = 4'096;
inline constexpr std::size_t kMaxStoredBytes = std::size_t{64} << 20;

struct StoredResponse {
  std::string body;     // the response object, as it was sent
  std::string history;  // JSON list: every input item up to it, then its output items
  std::size_t bytes() const { return body.size() + history.size(); }
};

class ResponseStore {
 public:
  explicit ResponseStore(std::size_t most = kMaxStoredResponses, std::size_t most_bytes = kMaxStoredBytes)
      : most_(most), most_bytes_(most_bytes) {}

  /// One that alone is beyond the limit of bytes is not kept.
  void put(const std::string& id, StoredResponse response);
  /// Also makes it the most recently used.
  std::optional<StoredResponse> get(const std::string& id);
  bool erase(const std::string& id);
  /// 0 if it is not kept.
  std::size_t history_bytes(const std::string& id) const;

  std::size_t size() const;
  std::size_t bytes() const;

 private:
  struct Entry {
    std::string id;
    StoredResponse response;
  };
  void drop(std::list<Entry>::iterator entry);

  const std::size_t most_, most_bytes_;
  mutable std::mutex mutex_;
  std::list<Entry> entries_;  // most recently used first
  std::unordered_map<std::string, std::list<Entry>::iterator> places_;
  std::size_t bytes_ = 0;
};

}  // namespace ft::api
