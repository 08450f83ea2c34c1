#include "text/schema_graph.h"

#include <algorithm>
#include <cmath>

#include "base/utf8.h"

namespace ft {

namespace {

using Json = nlohmann::ordered_json;

bool is_whole(const Json& value) {
  if (value.is_number_integer()) return true;
  return value.is_number_float() && std::floor(value.get<double>()) == value.get<double>();
}

bool is_kind(const Json& value, JsonKind kind) {
  switch (kind) {
    case JsonKind::kNull:
      return value.is_null();
    case JsonKind::kBoolean:
      return value.is_boolean();
    case JsonKind::kInteger:
      return is_whole(value);
    case JsonKind::kNumber:
      return value.is_number();
    case JsonKind::kString:
      return value.is_string();
    case JsonKind::kArray:
      return value.is_array();
    case JsonKind::kObject:
      return value.is_object();
  }
  return false;
}

bool within(const Json& value, const Json& limits) {
  const auto number = value.get<double>();
  for (const auto& [key, limit] : limits.items()) {
    if (key == "minimum" && number < limit.get<double>()) return false;
    if (key == "maximum" && number > limit.get<double>()) return false;
    if (key == "exclusiveMinimum" && number <= limit.get<double>()) return false;
    if (key == "exclusiveMaximum" && number >= limit.get<double>()) return false;
    if (key != "multipleOf") continue;
    for (const Json& step : limit) {
      const double times = number / step.get<double>();
      if (std::abs(times - std::round(times)) > 1e-9 * std::max(1.0, std::abs(times))) return false;
    }
  }
  return true;
}

}  // namespace

bool SchemaNode::allows(JsonKind kind) const {
  const auto of_kind = [&](const SchemaShape& shape) {
    return shape.kind == kind || (kind == JsonKind::kInteger && shape.kind == JsonKind::kNumber);
  };
  return anything || std::ranges::any_of(shapes, of_kind) ||
         std::ranges::any_of(literals, [&](const Json& value) { return is_kind(value, kind); });
}

bool SchemaGraph::fits(const Json& value, int id) const {
  Known known;
  return fits(value, id, known);
}

bool SchemaGraph::fits(const Json& value, const SchemaShape& shape) const {
  Known known;
  return fits(value, shape, known);
}

bool SchemaGraph::fits(const Json& value, int id, Known& known) const {
  if (id == SchemaShape::kNever) return false;
  const SchemaNode& found = node(id);
  if (found.anything || std::ranges::find(found.literals, value) != found.literals.end()) return true;
  const auto fits_shape = [&](const SchemaShape& shape) { return fits(value, shape, known); };
  if (!value.is_structured()) return std::ranges::any_of(found.shapes, fits_shape);
  const auto [result, fresh] = known.try_emplace({&value, id}, false);
  if (fresh) result->second = std::ranges::any_of(found.shapes, fits_shape);
  return result->second;
}

/// Recursion ends with the value, whose depth its reader bounds.
bool SchemaGraph::fits(const Json& value, const SchemaShape& shape, Known& known) const {
  if (!is_kind(value, shape.kind)) return false;
  if (value.is_number()) return within(value, shape.limits);
  const auto counted = [&](size_t count) { return count >= shape.min && count <= shape.max; };
  if (value.is_string()) return counted(utf8_count(value.get_ref<const std::string&>()));
  if (value.is_array()) {
    for (size_t i = 0; i < value.size(); ++i) {
      if (!fits(value[i], i < shape.prefix.size() ? shape.prefix[i] : shape.rest, known)) return false;
    }
    return counted(value.size());
  }
  if (!value.is_object()) return true;
  std::map<std::string_view, const Json*> members;
  for (const auto& [name, member] : value.items()) {
    if (shape.names != kAnything && !fits(Json(name), shape.names)) return false;
    members.emplace(name, &member);
  }
  for (const SchemaShape::Property& property : shape.properties) {
    const auto member = members.find(property.name);
    const bool there = member != members.end();
    if (there ? !fits(*member->second, property.node, known) : property.required) return false;
    if (there) members.erase(member);
  }
  for (const auto& [name, member] : members) {
    const bool other = shape.rest != SchemaShape::kNever && fits(*member, shape.rest, known);
    const bool patterned = std::ranges::any_of(
        shape.patterns,
        [&value = *member, &known, this](const auto& pattern) { return fits(value, pattern.second, known); });
    if (!other && !patterned) return false;
  }
  return counted(value.size());
}

}  // namespace ft
