// SchemaBuilder's shapes: the joint constraints of one alternative's schemas on one kind of value.
#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "text/pattern.h"
#include "text/schema_builder.h"

namespace ft {

namespace {

using Json = nlohmann::ordered_json;

const Json* member_of(const Json& schema, const char* key) {
  const auto found = schema.find(key);
  return found == schema.end() ? nullptr : &*found;
}

/// `limits[key]` becomes the narrower of itself and `bound`.
void narrow(Json& limits, const char* key, const Json& bound, bool least) {
  const auto found = limits.find(key);
  const bool keep = found != limits.end() && (least ? *found >= bound : *found <= bound);
  if (!keep) limits[key] = bound;
}

const SchemaShape::Property* property_of(const SchemaShape& shape, const std::string& name) {
  const auto found = std::ranges::find(shape.properties, name, &SchemaShape::Property::name);
  return found == shape.properties.end() ? nullptr : &*found;
}

}  // namespace

bool SchemaBuilder::number_shape(const Schemas& flat, SchemaShape& shape) {
  for (const Json* schema : flat) {
    for (const char* key : {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}) {
      const Json* bound = member_of(*schema, key);
      if (bound == nullptr || *bound == false) continue;
      const bool least = std::string_view(key).ends_with("inimum");
      if (*bound == true) bound = member_of(*schema, least ? "minimum" : "maximum");  // of draft 4
      if (bound != nullptr && bound->is_number()) {
        narrow(shape.limits, key, *bound, least);
      } else {
        broken(fmt::format("'{}' must be a number", key));
      }
    }
    const Json* step = member_of(*schema, "multipleOf");
    if (step == nullptr) continue;
    if (!step->is_number() || step->get<double>() <= 0) {
      broken("'multipleOf' must be a number above 0");
    } else if (Json& steps = shape.limits["multipleOf"]; std::ranges::find(steps, *step) == steps.end()) {
      steps.push_back(*step);
    }
  }
  return true;
}

void SchemaBuilder::counts(const Schemas& flat, const char* least, const char* most, SchemaShape& shape) {
  const auto read = [&](const Json& schema, const char* key, uint64_t otherwise) {
    const Json* count = member_of(schema, key);
    if (count == nullptr) return otherwise;
    const bool whole = count->is_number() && std::floor(count->get<double>()) == count->get<double>();
    if (!whole || count->get<double>() < 0) {
      broken(fmt::format("'{}' must be a whole number", key));
      return otherwise;
    }
    return count->get<double>() >= 1e15 ? SchemaShape::kNoLimit : static_cast<uint64_t>(count->get<double>());
  };
  for (const Json* schema : flat) {
    shape.min = std::max(shape.min, read(*schema, least, 0));
    shape.max = std::min(shape.max, read(*schema, most, SchemaShape::kNoLimit));
  }
}

bool SchemaBuilder::string_shape(const Schemas& flat, SchemaShape& shape) {
  counts(flat, "minLength", "maxLength", shape);
  for (const Json* schema : flat) {
    for (const char* key : {"pattern", "format"}) {
      const Json* text = member_of(*schema, key);
      if (text == nullptr) continue;
      if (!text->is_string()) {
        broken(fmt::format("'{}' must be a string", key));
      } else if (Json& list = shape.limits[key]; std::ranges::find(list, *text) == list.end()) {
        list.push_back(*text);
      }
    }
  }
  return shape.min <= shape.max;
}

bool SchemaBuilder::array_shape(const Schemas& flat, SchemaShape& shape) {
  counts(flat, "minItems", "maxItems", shape);
  struct Items {
    const Json* list;  // of the first items; null: none
    const Json* rest;
  };
  std::vector<Items> all;
  size_t listed = 0;
  for (const Json* schema : flat) {
    Items one = {member_of(*schema, "prefixItems"), member_of(*schema, "items")};
    if (one.rest != nullptr && one.rest->is_array()) {  // before draft 2020-12
      one = {one.rest, member_of(*schema, "additionalItems")};
    }
    if (one.list != nullptr && !one.list->is_array()) {
      broken("'prefixItems' must be a list of schemas");
      one.list = nullptr;
    }
    listed = std::max(listed, one.list == nullptr ? 0 : one.list->size());
    all.push_back(one);
  }
  for (size_t i = 0; i <= std::min<size_t>(listed, kMaxSchemaNodes); ++i) {  // the last time: the rest
    Schemas asked;
    for (const Items& one : all) {
      const bool first = one.list != nullptr && i < one.list->size() && i < listed;
      const Json* item = first ? &(*one.list)[i] : one.rest;
      if (item != nullptr) asked.push_back(item);
    }
    const int id = node(asked);
    if (i == listed) {
      shape.rest = id;
    } else {
      shape.prefix.push_back(id);
    }
  }
  return shape.min <= shape.max;
}

/// The constraints on a property of this name, from all schemas.
SchemaBuilder::Schemas SchemaBuilder::asked_of_property(const Schemas& flat, const std::string& name) {
  Schemas asked;
  for (const Json* schema : flat) {
    bool named = false;
    if (const Json* properties = member_of(*schema, "properties");
        properties != nullptr && properties->is_object()) {
      if (const auto found = properties->find(name); found != properties->end()) {
        asked.push_back(&*found), named = true;
      }
    }
    if (const Json* patterns = member_of(*schema, "patternProperties");
        patterns != nullptr && patterns->is_object()) {
      for (const auto& [pattern, value] : patterns->items()) {
        if (matches(pattern, name)) asked.push_back(&value), named = true;
      }
    }
    if (const Json* other = member_of(*schema, "additionalProperties"); other != nullptr && !named) {
      asked.push_back(other);
    }
  }
  return asked;
}

bool SchemaBuilder::object_shape(const Schemas& flat, SchemaShape& shape) {
  counts(flat, "minProperties", "maxProperties", shape);
  const auto add = [&](const std::string& name) {
    if (property_of(shape, name) == nullptr) shape.properties.push_back({name, SchemaShape::kNever, false});
  };
  for (const Json* schema : flat) {
    const Json* properties = member_of(*schema, "properties");
    if (properties == nullptr) continue;
    if (!properties->is_object()) {
      broken("'properties' must be an object");
      continue;
    }
    for (const auto& [name, property] : properties->items()) add(name);
  }
  for (const Json* schema : flat) {
    const Json* required = member_of(*schema, "required");
    if (required == nullptr || required->is_boolean()) continue;  // a boolean: draft 3, of a property
    if (!required->is_array()) {
      broken("'required' must be a list of names");
      continue;
    }
    for (const Json& name : *required) {
      if (!name.is_string()) continue;
      add(name.get<std::string>());
      std::ranges::find(shape.properties, name.get<std::string>(), &SchemaShape::Property::name)->required =
          true;
    }
  }
  for (SchemaShape::Property& property : shape.properties) {
    property.node = node(asked_of_property(flat, property.name));
  }
  Schemas others;
  for (const Json* schema : flat) {
    if (const Json* other = member_of(*schema, "additionalProperties")) others.push_back(other);
    shape.open =
        shape.open || schema->contains("additionalProperties") || schema->contains("patternProperties");
  }
  shape.rest = node(others);
  if (const Json* strangers = member_of(*flat.front(), "unevaluatedProperties")) {
    if (*strangers == false) shape.rest = SchemaShape::kNever;
    if (*strangers != false && !strangers->is_boolean()) unenforced("unevaluatedProperties");
  }
  add_patterns(flat, shape);
  add_names(flat, shape);
  return shape.min <= shape.max;
}

void SchemaBuilder::add_patterns(const Schemas& flat, SchemaShape& shape) {
  for (const Json* schema : flat) {
    const Json* patterns = member_of(*schema, "patternProperties");
    if (patterns == nullptr || !patterns->is_object()) continue;
    for (const auto& [pattern, value] : patterns->items()) {
      Schemas asked = {&value};
      for (const Json* other : flat) {
        const Json* strangers = member_of(*other, "additionalProperties");
        if (other != schema && strangers != nullptr) asked.push_back(strangers);
      }
      shape.patterns.emplace_back(pattern, node(asked));
    }
  }
}

bool SchemaBuilder::matches(const std::string& pattern, const std::string& text) {
  const Result<bool> found = pattern_matches(pattern, text);
  if (!found.ok()) unenforced(fmt::format("pattern {}: {}", pattern, found.error().message));
  return found.ok() && *found;
}

bool SchemaBuilder::impossible(const SchemaShape& shape) const {
  const auto never = [&](int id) { return id == SchemaShape::kNever || graph_.node(id).impossible(); };
  if (shape.kind == JsonKind::kArray) {
    const auto end = std::ranges::find_if(shape.prefix, never);
    const auto listed = static_cast<uint64_t>(end - shape.prefix.begin());
    return shape.min > listed && (end != shape.prefix.end() || never(shape.rest));
  }
  if (shape.kind != JsonKind::kObject) return false;
  uint64_t possible = 0, required = 0;
  for (const SchemaShape::Property& property : shape.properties) {
    if (property.required && never(property.node)) return true;
    possible += never(property.node) ? 0 : 1;
    required += property.required ? 1 : 0;
  }
  const bool more = !never(shape.names) && (!never(shape.rest) || !shape.patterns.empty());
  return required > shape.max || (shape.min > possible && !more);
}

/// Removes shapes without a value, until there are no more.
void SchemaBuilder::drop_impossible() {
  for (bool again = true; again;) {
    again = false;
    for (SchemaNode& one : graph_.nodes_) {
      const bool before = one.impossible();
      std::erase_if(one.shapes, [&](const SchemaShape& shape) { return impossible(shape); });
      again = again || one.impossible() != before;
    }
  }
}

/// oneOf is anyOf where no value fits two members.
void SchemaBuilder::check_one_of() {
  for (const auto& [list, nodes] : one_of_) {
    for (size_t i = 0; i < nodes.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        if (!disjoint(nodes[i], nodes[j], 0))
          return unenforced("oneOf with members that allow the same value");
      }
    }
  }
}

bool SchemaBuilder::disjoint(int a, int b, int depth) const {
  constexpr int kMaxDepth = 8;
  if (a == SchemaShape::kNever || b == SchemaShape::kNever) return true;
  const SchemaNode &left = graph_.node(a), &right = graph_.node(b);
  if (left.anything || right.anything || depth > kMaxDepth) return false;
  for (const Json& value : left.literals) {
    if (graph_.fits(value, b)) return false;
  }
  for (const Json& value : right.literals) {
    if (graph_.fits(value, a)) return false;
  }
  return std::ranges::all_of(left.shapes, [&](const SchemaShape& one) {
    return std::ranges::all_of(right.shapes,
                               [&](const SchemaShape& other) { return disjoint(one, other, depth); });
  });
}

bool SchemaBuilder::disjoint(const SchemaShape& a, const SchemaShape& b, int depth) const {
  const auto number = [](JsonKind kind) { return kind == JsonKind::kInteger || kind == JsonKind::kNumber; };
  if (number(a.kind) && number(b.kind)) {
    const auto below = [](const SchemaShape& low, const SchemaShape& high) {
      return low.limits.contains("maximum") && high.limits.contains("minimum") &&
             low.limits["maximum"] < high.limits["minimum"];
    };
    return below(a, b) || below(b, a);
  }
  if (a.kind != b.kind) return true;
  if (a.max < b.min || b.max < a.min) return true;
  if (a.kind != JsonKind::kObject) return false;
  const auto told_apart = [&](const SchemaShape& one, const SchemaShape& other) {
    return std::ranges::any_of(one.properties, [&](const SchemaShape::Property& property) {
      if (!property.required) return false;
      const SchemaShape::Property* same = property_of(other, property.name);
      if (same != nullptr) return disjoint(property.node, same->node, depth + 1);
      return other.rest == SchemaShape::kNever && other.patterns.empty();
    });
  };
  return told_apart(a, b) || told_apart(b, a);
}

}  // namespace ft
