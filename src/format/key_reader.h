// KeyReader: typed, bounded access to the keys of one JSON object. It remembers the first wrong key and
// returns the default, so a caller reads many keys in a row and checks status() once at the end. Only for the
// .cpp files of format/, because it includes the JSON library.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>

#include "base/result.h"

namespace ft::format {

class KeyReader {
 public:
  /// `where` begins every message: "DIR/config.json: text_config". A null object has no keys.
  KeyReader(const nlohmann::json& object, std::string where) : object_(object), where_(std::move(where)) {}

  int whole(const char* key, int otherwise, int low, int high);
  std::int64_t whole64(const char* key, std::int64_t otherwise, std::int64_t low, std::int64_t high);
  std::optional<int> optional_whole(const char* key, int low, int high);
  double real(const char* key, double otherwise, double low, double high);
  std::optional<double> optional_real(const char* key, double low, double high);
  bool flag(const char* key, bool otherwise);
  std::optional<bool> optional_flag(const char* key);
  std::string text(const char* key, const std::string& otherwise);

  /// The value, or nullptr if the key is absent or null.
  const nlohmann::json* find(const char* key) const;
  /// The nested object, or an empty one; a value of another kind is an error.
  const nlohmann::json& object(const char* key);

  void fail(const char* key, const std::string& expected, const nlohmann::json* found);
  void fail(Code code, const std::string& message);
  const Status& status() const { return status_; }
  const std::string& where() const { return where_; }

 private:
  const nlohmann::json& object_;
  std::string where_;
  Status status_;
};

}  // namespace ft::format
