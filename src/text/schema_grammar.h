// Grammars of JSON answers for the schemas that llguidance's %json does not enforce: minProperties and
// maxProperties, which count different names, and number bounds that its expressions cannot hold.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "text/grammar.h"

namespace ft {

/// The name of a rule; its rules are appended to `lark` under names that begin with `prefix`. Nullopt: %json
/// keeps the schema. Error: a part of a strict schema that cannot be enforced.
Result<std::optional<std::string>> counted_schema_rule(const nlohmann::ordered_json& schema, SchemaRule rule,
                                                       const std::string& prefix, std::string& lark);

}  // namespace ft
