// SchemaBuilder's names: the conditions of propertyNames on the names of an object's properties.
#include <algorithm>
#include <fmt/format.h>

#include "text/pattern.h"
#include "text/schema_builder.h"

namespace ft {

namespace {

using Json = nlohmann::ordered_json;

const Json& string_schema() {
  static const Json kSchema = {{"type", "string"}};
  return kSchema;
}

bool is_free(const SchemaShape& text) {
  return text.limits.empty() && text.min == 0 && text.max == SchemaShape::kNoLimit;
}

}  // namespace

void SchemaBuilder::add_names(const Schemas& flat, SchemaShape& shape) {
  Schemas asked;
  for (const Json* schema : flat) {
    const auto names = schema->find("propertyNames");
    if (names != schema->end()) asked.push_back(&*names);
  }
  if (asked.empty()) return;
  asked.push_back(&string_schema());
  shape.names = node(asked);
}

/// Once all nodes are known: applies the names of each shape to its properties.
void SchemaBuilder::settle_names() {
  for (SchemaNode& one : graph_.nodes_) {
    for (SchemaShape& shape : one.shapes) {
      if (shape.names != SchemaGraph::kAnything) settle_names(shape);
    }
  }
}

void SchemaBuilder::settle_names(SchemaShape& shape) {
  const bool never = shape.names == SchemaShape::kNever;
  if (!never && std::ranges::any_of(graph_.node(shape.names).shapes, is_free)) {
    shape.names = SchemaGraph::kAnything;
    return;
  }
  std::set<Json> listed;
  if (!never)
    listed.insert(graph_.node(shape.names).literals.begin(), graph_.node(shape.names).literals.end());
  if (!spend(listed.size())) return;
  std::set<std::string> there;
  for (SchemaShape::Property& property : shape.properties) {
    if (!allows_name(shape.names, listed, property.name)) property.node = SchemaShape::kNever;
    there.insert(property.name);
  }
  shape.open = true;
  if (never || !graph_.node(shape.names).shapes.empty()) return;
  // The names are listed: each becomes a property, so that none comes twice.
  for (const Json& literal : graph_.node(shape.names).literals) {
    const auto name = literal.get<std::string>();
    if (there.contains(name)) continue;
    std::vector<int> nodes;
    for (const auto& [pattern, id] : shape.patterns) {
      if (matches(pattern, name)) nodes.push_back(id);
    }
    if (nodes.size() > 1) unenforced("propertyNames of names that have several patterns");
    shape.properties.push_back({name, nodes.empty() ? shape.rest : nodes.front(), false});
  }
  shape.patterns.clear();
  shape.rest = SchemaShape::kNever, shape.names = SchemaGraph::kAnything;
}

bool SchemaBuilder::allows_name(int id, const std::set<Json>& listed, const std::string& name) {
  if (id == SchemaShape::kNever) return false;
  const SchemaNode& names = graph_.node(id);
  if (listed.contains(Json(name))) return true;
  return std::ranges::any_of(names.shapes, [&](const SchemaShape& text) {
    if (!graph_.fits(Json(name), text)) return false;
    const auto holds = [&](const Json& pattern) { return matches(pattern, name); };
    if (!std::ranges::all_of(text.limits.value("pattern", Json::array()), holds)) return false;
    for (const Json& format : text.limits.value("format", Json::array())) {
      const char* pattern = format_pattern(format.get<std::string>());
      if (pattern != nullptr && *pattern != 0 && !matches(fmt::format("^(?:{})$", pattern), name))
        return false;
    }
    return true;
  });
}

}  // namespace ft
