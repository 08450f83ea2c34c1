// Fields: reads the members of a JSON object and checks their types and ranges. An Error (kInvalid) names the
// field as the client wrote it ("messages[2].content"). An absent or null member is nullopt. A Fields value
// refers to its object and must not outlive it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/json.h"
#include "base/result.h"

namespace ft::api {

inline constexpr std::size_t kMaxBodyBytes = std::size_t{32} << 20;

/// The body as a JSON object; kInvalid names the first unexpected byte.
Result<Json> parse_body(std::string_view body);

/// "`field`: sentence", kInvalid.
Error wrong(const std::string& field, const std::string& sentence);

class Fields {
 public:
  /// `object` must be a JSON object; `path` is "" for the body itself.
  Fields(const Json& object, std::string path) : object_(&object), path_(std::move(path)) {}

  std::string at(std::string_view name) const;
  /// Null if absent or null.
  const Json* find(std::string_view name) const;

  Result<std::optional<float>> number(std::string_view name, double low, double high) const;
  Result<std::optional<std::int64_t>> integer(std::string_view name, std::int64_t low,
                                              std::int64_t high) const;
  Result<std::optional<bool>> boolean(std::string_view name) const;
  Result<std::optional<std::string>> text(std::string_view name) const;
  /// A string that is one of `choices`.
  Result<std::optional<std::string>> word(std::string_view name,
                                          const std::vector<std::string_view>& choices) const;
  Result<const Json*> object(std::string_view name) const;
  Result<const Json*> array(std::string_view name, std::size_t most) const;

 private:
  const Json* object_;
  std::string path_;
};

/// The kind of a JSON value, for messages: "a number", "a list".
std::string kind_of(const Json& value);
/// Compact JSON text; invalid UTF-8 becomes U+FFFD.
std::string dump(const Json& value);
/// Appends a server-sent event; its name may be empty.
void add_frame(std::string_view name, const Json& data, std::string& out);

}  // namespace ft::api
