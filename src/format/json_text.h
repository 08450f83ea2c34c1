// Reads JSON that came with a model: bounded depth, no exceptions, duplicate keys detected. All JSON parsing
// in format/ is here. Cost: one pass into a DOM. Errors: kCorrupt with file and byte, kExhausted when memory
// runs out; reading a file adds the errors of MappedFile.
#pragma once

#include <cstddef>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/result.h"

namespace ft::format {

inline constexpr int kMaxJsonDepth = 64;                           // nesting depth of objects and arrays
inline constexpr std::size_t kMaxConfigBytes = 64U * 1024 * 1024;  // config.json, weight index

// kLastWins: as Python reads a config. It takes NaN, Infinity and -Infinity too, here as strings.
enum class DuplicateKeys { kRefuse, kLastWins };

/// Takes a document apart from its leaves. The library's own destructor allocates for every container that is
/// not empty and, being noexcept, ends the process when memory has run out.
struct DrainingDelete {
  void operator()(nlohmann::json* root) const noexcept;
};
using JsonDocument = std::unique_ptr<nlohmann::json, DrainingDelete>;  // never nullptr

/// `origin` begins every message: it is the path of the file.
Result<JsonDocument> parse_json(std::string_view text, const std::string& origin, DuplicateKeys duplicates);

/// Reads the object in a JSON file of at most kMaxConfigBytes; kCorrupt if the top-level value is not an
/// object.
Result<JsonDocument> read_json_object(const std::string& path);

}  // namespace ft::format
