// ResponseStore: answers of POST /v1/responses for later use by previous_response_id, GET, and DELETE
// /v1/responses/{id}, in a SQLite database: a file, which restarts and several processes share, or memory.
// put() returns when the entry is written, so killing the process loses none; a power cut may lose the last
// ones. Beyond the limits, the key with the most entries loses its least recently used one, so no key can
// push out the entries of a key with fewer. An entry is found until its age exceeds the limit. One lock per
// call makes it safe from any thread. An unknown id gives nullopt, and so does an entry that the caller may
// not use. Cost of put(): a write without fsync; a thread of the store moves the log of a file into it.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "api/caller.h"
#include "api/openai/sqlite_database.h"
#include "base/result.h"

namespace ft::api {

inline constexpr std::size_t kMaxStoredResponses = 4'096;
inline constexpr std::size_t kMaxStoredBytes = std::size_t{64} << 20;     // in memory
inline constexpr std::size_t kMaxStoredFileBytes = std::size_t{1} << 30;  // in a file
inline constexpr std::int64_t kMaxStoredAgeS = std::int64_t{30} * 24 * 3600;

struct StoredResponse {
  std::string body;         // the response object as sent
  std::string history;      // JSON list: all input items before, then the output items
  std::string deltas = {};  // JSON list: for each output item, the bytes of each piece of its text
  std::size_t inputs = 0;   // how many items of the history are input
  std::vector<std::string> item_ids = {};  // of its output
  std::size_t bytes() const { return body.size() + history.size() + deltas.size(); }
};

struct StoreLimits {
  std::size_t entries = kMaxStoredResponses, bytes = kMaxStoredBytes;
  std::int64_t age_s = kMaxStoredAgeS;
};

class ResponseStore {
 public:
  using Limits = StoreLimits;
  using Clock = std::function<std::int64_t()>;  // seconds

  /// In memory.
  explicit ResponseStore(Limits limits = {});
  /// In a file, whose folder exists. An error if the file is damaged or not a response store.
  static Result<std::unique_ptr<ResponseStore>> open(const std::string& path, Limits limits,
                                                     Clock clock = nullptr);
  ~ResponseStore();
  ResponseStore(const ResponseStore&) = delete;
  ResponseStore& operator=(const ResponseStore&) = delete;

  /// An entry that exceeds the byte limit by itself is not stored. It belongs to the caller's key.
  Status put(const std::string& id, const StoredResponse& response, const Caller& caller);
  /// Also marks the entry as the most recently used.
  std::optional<StoredResponse> get(const std::string& id, const Caller& caller);
  /// The body of the response whose output has the item `item_id`.
  std::optional<std::string> body_with_item(const std::string& item_id, const Caller& caller) const;
  bool erase(const std::string& id, const Caller& caller);
  /// 0 if the id is not stored.
  std::size_t history_bytes(const std::string& id, const Caller& caller) const;

  std::size_t size() const;
  std::size_t bytes() const;

 private:
  ResponseStore(SqliteDatabase database, Limits limits, Clock clock);
  Status prepare_tables();
  Status check_is_ours();
  Status write(const std::string& id, const StoredResponse& response, const Caller& caller);
  Status write_items(const std::string& id, const std::vector<std::string>& item_ids);
  Status drop_one();
  Result<std::optional<StoredResponse>> read(const std::string& id, const Caller& caller);
  Result<std::optional<std::string>> read_body(const std::string& item_id, const Caller& caller) const;
  Result<bool> remove(const std::string& id, const Caller& caller);
  Result<std::int64_t> total(const char* what) const;
  void move_log(SqliteDatabase& database, const std::stop_token& stop);

  const Limits limits_;
  const Clock clock_;
  mutable std::mutex mutex_;
  mutable SqliteDatabase database_;

  std::condition_variable_any written_;
  bool fresh_ = false;   // something was written since the log was moved
  std::jthread keeper_;  // last: it ends before the members that it uses
};

}  // namespace ft::api
