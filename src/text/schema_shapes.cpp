// SchemaBuilder's shapes: the joint constraints of one alternative's schemas on one kind of value.
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>

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

/// One end of the numbers that limits allow.
struct NumberEnd {
  double at;
  bool open;  // `at` itself is excluded
};

/// `sign`: 1 for the lower end, -1 for the upper one of the negated numbers.
NumberEnd end_of(const Json& limits, const char* bound, const char* excluded, double sign) {
  NumberEnd end = {-std::numeric_limits<double>::infinity(), false};
  if (limits.contains(bound)) end.at = sign * limits[bound].get<double>();
  if (!limits.contains(excluded)) return end;
  const double open = sign * limits[excluded].get<double>();
  return open >= end.at ? NumberEnd{open, true} : end;
}

bool has_real(NumberEnd low, NumberEnd high) {
  if (low.at == high.at) return !low.open && !high.open;
  const bool both = low.open && high.open;
  return both ? std::nextafter(low.at, high.at) < high.at : low.at < high.at;
}

bool has_multiple(NumberEnd low, NumberEnd high, double step) {
  constexpr double kMaxMultiple = 1e15;  // beyond it a double does not tell multiples apart
  constexpr double kNear = 1e-9;
  const double first = low.at / step, last = high.at / step;
  if (std::abs(first) > kMaxMultiple || std::abs(last) > kMaxMultiple) return low.at <= high.at;
  const auto near = [&](double a, double b) { return std::abs(a - b) <= kNear * std::max(1.0, std::abs(a)); };
  double from = near(first, std::round(first)) ? std::round(first) : std::ceil(first);
  double to = near(last, std::round(last)) ? std::round(last) : std::floor(last);
  if (low.open && near(from, first)) ++from;
  if (high.open && near(to, last)) --to;
  return from <= to;
}

/// False only if no number is within the limits. Several steps may still have no multiple in common.
bool has_number(const Json& limits, bool whole) {
  const NumberEnd low = end_of(limits, "minimum", "exclusiveMinimum", 1);
  const NumberEnd negated = end_of(limits, "maximum", "exclusiveMaximum", -1);
  const NumberEnd high = {-negated.at, negated.open};
  if (whole ? !has_multiple(low, high, 1) : !has_real(low, high)) return false;
  const Json steps = limits.value("multipleOf", Json::array());
  return std::ranges::all_of(steps,
                             [&](const Json& step) { return has_multiple(low, high, step.get<double>()); });
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
  return has_number(shape.limits, shape.kind == JsonKind::kInteger);
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

std::vector<SchemaBuilder::Named> SchemaBuilder::named_properties(const Schemas& flat) {
  std::vector<Named> all(flat.size());
  for (size_t i = 0; i < flat.size(); ++i) {
    const Json* properties = member_of(*flat[i], "properties");
    if (properties == nullptr || !properties->is_object()) continue;
    for (const auto& [name, property] : properties->items()) all[i].try_emplace(name, &property);
  }
  return all;
}

/// The constraints on a property of this name, from all schemas.
SchemaBuilder::Schemas SchemaBuilder::asked_of_property(const Schemas& flat, const std::vector<Named>& named,
                                                        const std::string& name) {
  Schemas asked;
  for (size_t i = 0; i < flat.size(); ++i) {
    const Json* schema = flat[i];
    const auto found = named[i].find(name);
    bool is_named = found != named[i].end();
    if (is_named) asked.push_back(found->second);
    if (const Json* patterns = member_of(*schema, "patternProperties");
        patterns != nullptr && patterns->is_object()) {
      for (const auto& [pattern, value] : patterns->items()) {
        if (matches(pattern, name)) asked.push_back(&value), is_named = true;
      }
    }
    if (const Json* other = member_of(*schema, "additionalProperties"); other != nullptr && !is_named) {
      asked.push_back(other);
    }
  }
  return asked;
}

bool SchemaBuilder::object_shape(const Schemas& flat, SchemaShape& shape) {
  counts(flat, "minProperties", "maxProperties", shape);
  std::unordered_map<std::string, size_t> places;
  const auto add = [&](const std::string& name) -> SchemaShape::Property& {
    const auto [place, fresh] = places.try_emplace(name, shape.properties.size());
    if (fresh) shape.properties.push_back({name, SchemaShape::kNever, false});
    return shape.properties[place->second];
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
      if (name.is_string()) add(name.get<std::string>()).required = true;
    }
  }
  if (!spend(shape.properties.size() * flat.size())) return false;
  const std::vector<Named> named = named_properties(flat);
  for (SchemaShape::Property& property : shape.properties) {
    property.node = node(asked_of_property(flat, named, property.name));
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
  const auto [known, fresh] = matches_.try_emplace({pattern, text}, false);
  if (!fresh) return known->second;
  if (matches_.size() > kMaxMatches) {
    broken(fmt::format("more than {} names and values are to be matched with patterns", kMaxMatches));
    return false;
  }
  if (match_work_ > kMaxMatchWork) {
    broken("matching its names and values with its patterns takes too much work");
    return false;
  }
  const Result<bool> found = pattern_matches(pattern, text, &match_work_);
  if (!found.ok()) unenforced(fmt::format("pattern {}: {}", pattern, found.error().message));
  return known->second = found.ok() && *found;
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
  if (!graph_.broken_.empty()) return;
  for (const auto& [list, nodes] : one_of_) {
    bool overlap = false;
    for (size_t i = 0; i < nodes.size(); ++i) {
      for (size_t j = 0; j < i; ++j) overlap = overlap || !disjoint(nodes[i], nodes[j]);
    }
    if (!overlap) continue;
    std::vector<Json> apart = split(nodes);
    if (apart.empty()) {
      unenforced("oneOf with members that allow the same value");
    } else {
      splits_.emplace(list, std::move(apart));
    }
  }
}

/// Makes overlapping objects distinct by a property that only one requires: the other must not have it. Empty
/// if that is not possible.
std::vector<SchemaBuilder::Json> SchemaBuilder::split(const std::vector<int>& nodes) {
  const Json free = {{"properties", Json::object()}};
  std::vector<Json> apart(nodes.size(), free);
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (size_t j = 0; j < nodes.size(); ++j) {
      if (i == j || disjoint(nodes[i], nodes[j])) continue;
      const auto name = required_by_one(nodes[j], nodes[i]);
      if (!name) return {};
      apart[i]["properties"][*name] = false;
    }
  }
  return apart;
}

/// A property that every value of `one` has and that no value of `other` needs; both are objects.
std::optional<std::string> SchemaBuilder::required_by_one(int one, int other) {
  const auto objects = [](const SchemaNode& node) {
    const auto is_object = [](const SchemaShape& shape) { return shape.kind == JsonKind::kObject; };
    return !node.anything && node.literals.empty() && std::ranges::all_of(node.shapes, is_object);
  };
  const SchemaNode &left = graph_.node(one), &right = graph_.node(other);
  if (!objects(left) || !objects(right) || left.shapes.empty()) return std::nullopt;
  for (const SchemaShape::Property& property : left.shapes.front().properties) {
    if (++compared_ > kMaxCompared) break;
    const auto requires_it = [&](const SchemaShape& shape) {
      compared_ += shape.properties.size();
      const SchemaShape::Property* same = property_of(shape, property.name);
      return same != nullptr && same->required;
    };
    if (std::ranges::all_of(left.shapes, requires_it) && std::ranges::none_of(right.shapes, requires_it))
      return property.name;
  }
  return std::nullopt;
}

/// True if no value fits both. False if that depends on itself or takes too long to find out.
bool SchemaBuilder::disjoint(int a, int b) {
  if (a == SchemaShape::kNever || b == SchemaShape::kNever) return true;
  constexpr int kMaxDepth = 32;  // of recursion
  if (depth_ > kMaxDepth) return false;
  const auto [known, fresh] = disjoint_.try_emplace({a, b}, false);
  if (!fresh || disjoint_.size() > kMaxCompared) return known->second;
  ++depth_;
  const bool apart = told_apart(graph_.node(a), graph_.node(b));
  --depth_;
  return known->second = apart;
}

bool SchemaBuilder::told_apart(const SchemaNode& left, const SchemaNode& right) {
  if (left.anything || right.anything) return false;
  const auto fits = [this](const Json& value, const SchemaNode& node) {
    return std::ranges::find(node.literals, value) != node.literals.end() ||
           std::ranges::any_of(node.shapes,
                               [&](const SchemaShape& shape) { return graph_.fits(value, shape); });
  };
  compared_ += left.literals.size() * (right.literals.size() + right.shapes.size());
  compared_ += right.literals.size() * left.shapes.size();
  if (compared_ > kMaxCompared) return false;
  if (std::ranges::any_of(left.literals, [&](const Json& value) { return fits(value, right); })) return false;
  if (std::ranges::any_of(right.literals, [&](const Json& value) { return fits(value, left); })) return false;
  return std::ranges::all_of(left.shapes, [&](const SchemaShape& one) {
    return std::ranges::all_of(right.shapes, [&](const SchemaShape& other) { return disjoint(one, other); });
  });
}

bool SchemaBuilder::disjoint(const SchemaShape& a, const SchemaShape& b) {
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
  return a.kind == JsonKind::kObject && (told_apart(a, b) || told_apart(b, a));
}

/// `one` needs a property that `other` has with other values, or not at all.
bool SchemaBuilder::told_apart(const SchemaShape& one, const SchemaShape& other) {
  return std::ranges::any_of(one.properties, [&](const SchemaShape::Property& property) {
    if (!property.required) return false;
    compared_ += other.properties.size();
    if (compared_ > kMaxCompared) return false;
    const SchemaShape::Property* same = property_of(other, property.name);
    if (same != nullptr) return disjoint(property.node, same->node);
    return other.rest == SchemaShape::kNever && other.patterns.empty();
  });
}

}  // namespace ft
