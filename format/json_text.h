// Reading JSON that came with a model: bounded depth, no exceptions, duplicate keys seen. Everything in
// format/ that parses JSON does it here. Cost: one pass into a DOM. Threads: any. Errors: kCorrupt with file
// and byte, kExhausted when memory ends; reading a file adds those of MappedFile.
#pragma once

#include <cstddef>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/result.h"

namespace ft::format {

inline constexpr int kMaxJsonDepth = 64;                           // objects and arrays inside one another
inline constexpr std::size_t kMaxConfigBytes = 64U * 1024 * 1024;  // config.json, weight index

enum class DuplicateKeys { kRefuse, kLastWins };  // kLastWins is what Python does with a config

/// Takes a document apart from its leaves. The library's own destructor allocates for every container that is
/// not empty, and being noexcept ends the process where memory has ended.
struct DrainingDelete {
  void operator()(nlohmann::json* root) const noexcept;
};
using JsonDocument = std::unique_ptr<nlohmann::json, DrainingDelete>;  // never nullptr

/// `origin` begins every message: the path of the file.
Result<JsonDocument> parse_json(std::string_view text, const std::string& origin, DuplicateKeys duplicates);

/// The object in a JSON file of at most kMaxConfigBytes; another kind of value at the top is kCorrupt.
Result<JsonDocument> read_json_object(const std::string& path);

}  // namespace ft::format
