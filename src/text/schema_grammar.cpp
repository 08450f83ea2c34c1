#include "text/schema_grammar.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "text/schema_graph.h"
#include "text/schema_lark.h"

namespace ft {

namespace {

using Json = nlohmann::ordered_json;

constexpr double kHugeBound = 1e15;

bool needs_rules(const SchemaShape& shape) {
  if (shape.kind == JsonKind::kObject) return shape.min > 0 || shape.max != SchemaShape::kNoLimit;
  if (shape.kind == JsonKind::kNumber && moved_bound(shape.limits)) return true;
  return std::ranges::any_of(shape.limits.items(), [](const auto& limit) {
    return limit.value().is_number() && std::abs(limit.value().template get<double>()) > kHugeBound;
  });
}

/// A number that the library would round or, as the lowest of 64 bits, cannot write.
bool has_huge_number(const Json& value) {
  if (value.is_number()) return std::abs(value.get<double>()) > kHugeBound;
  return value.is_structured() && std::ranges::any_of(value, has_huge_number);
}

/// True if a schema in it may have conditions on names, which the library does not support.
bool names_properties(const Json& schema) {
  if (!schema.is_structured()) return false;
  return (schema.is_object() && schema.contains("propertyNames")) ||
         std::ranges::any_of(schema, names_properties);
}

}  // namespace

Result<std::optional<std::string>> counted_schema_rule(const Json& schema, SchemaRule rule,
                                                       const std::string& prefix, std::string& lark) {
  const SchemaGraph graph = SchemaGraph::build(schema, false);
  bool needed = names_properties(schema);
  for (size_t id = 0; id < graph.size(); ++id) {
    const SchemaNode& node = graph.node(static_cast<int>(id));
    needed = needed || std::ranges::any_of(node.shapes, needs_rules) ||
             std::ranges::any_of(node.literals, has_huge_number);
  }
  for (const std::string& what : graph.broken()) {
    const bool dynamic = what.find("cannot be followed") != std::string::npos;
    if (dynamic && rule == SchemaRule::kStrict)
      return Error{Code::kInvalid, fmt::format("the JSON schema cannot be used: {}", what)};
  }
  if (!needed || !graph.broken().empty() || !graph.lost().empty()) return std::optional<std::string>();
  SchemaLark rules(graph, kJsonNotation, prefix, lark);
  std::string name = rules.value(graph.root());
  rules.finish();
  std::set<std::string> unenforced = rules.unenforced();
  unenforced.insert(graph.unenforced().begin(), graph.unenforced().end());
  if (rule == SchemaRule::kStrict && !unenforced.empty()) {
    return Error{Code::kInvalid, fmt::format("the JSON schema cannot be used: {} cannot be enforced; omit it",
                                             fmt::join(unenforced, ", "))};
  }
  return std::optional(std::move(name));
}

}  // namespace ft
