// API keys: reads Authorization: Bearer KEY or x-api-key: KEY and finds the key's owner in constant time. The
// router decides which paths need no key.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/caller.h"
#include "base/result.h"
#include "server/http_request.h"

namespace ft::server {

/// The keys that may use the server. Immutable.
class KeyRing {
 public:
  /// A key in both lists is an operator's. Without keys all callers are one caller, an operator. An empty key
  /// matches nobody.
  KeyRing(const std::vector<std::string>& keys, const std::vector<std::string>& operator_keys);
  /// For a process that serves a front (server/front/front.h): only the front knows `secret`. It has checked
  /// the caller, and names it in kCallerHeader.
  static KeyRing behind_front(const std::string& secret);
  /// The caller of the request; nullopt if it needs a key and has no valid one.
  std::optional<api::Caller> caller(const HttpRequest& http_request) const;

 private:
  struct Key {
    std::string text;
    api::Caller caller;
  };
  std::vector<Key> keys_;
  bool behind_front_ = false;
};

inline constexpr std::string_view kCallerHeader = "x-foretoken-caller";
/// The value of kCallerHeader: the owner's number, and "operator" after it.
std::string caller_text(const api::Caller& caller);
/// The caller with that value; nullopt for a malformed one.
std::optional<api::Caller> read_caller(std::string_view text);

/// A KeyRing that may be replaced while the server runs. Any thread may call it.
class LiveKeys {
 public:
  explicit LiveKeys(KeyRing keys) : keys_(std::make_shared<const KeyRing>(std::move(keys))) {}
  std::shared_ptr<const KeyRing> get() const {
    const std::lock_guard lock(mutex_);
    return keys_;
  }
  void replace(KeyRing keys) {
    auto fresh = std::make_shared<const KeyRing>(std::move(keys));
    const std::lock_guard lock(mutex_);
    keys_ = std::move(fresh);
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const KeyRing> keys_;
};

/// Compares in a time that depends only on the lengths.
bool same_secret(std::string_view left, std::string_view right);

}  // namespace ft::server
