#include "text/schema_builder.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>

#include "base/json.h"

namespace ft {

namespace {

using Json = nlohmann::ordered_json;

/// The schema of one type.
const Json& null_schema() {
  static const Json kSchema = {{"type", "null"}};
  return kSchema;
}

const Json& object_schema() {
  static const Json kSchema = {{"type", "object"}};
  return kSchema;
}

enum : unsigned {
  kNulls = 1,
  kBooleans = 2,
  kWhole = 4,
  kReals = 8,
  kStrings = 16,
  kArrays = 32,
  kObjects = 64
};
constexpr unsigned kAllKinds = 127;

struct KindName {
  const char* name;
  unsigned kinds;
};
constexpr std::array<KindName, 7> kKindNames = {{{"null", kNulls},
                                                 {"boolean", kBooleans},
                                                 {"integer", kWhole},
                                                 {"number", kWhole | kReals},
                                                 {"string", kStrings},
                                                 {"array", kArrays},
                                                 {"object", kObjects}}};

/// Keywords that constrain only one kind of value. They determine the kind of a schema without a type.
constexpr std::array<KindName, 27> kKeywordKinds = {{{"properties", kObjects},
                                                     {"required", kObjects},
                                                     {"additionalProperties", kObjects},
                                                     {"patternProperties", kObjects},
                                                     {"propertyNames", kObjects},
                                                     {"minProperties", kObjects},
                                                     {"maxProperties", kObjects},
                                                     {"items", kArrays},
                                                     {"prefixItems", kArrays},
                                                     {"minItems", kArrays},
                                                     {"maxItems", kArrays},
                                                     {"uniqueItems", kArrays},
                                                     {"contains", kArrays},
                                                     {"pattern", kStrings},
                                                     {"format", kStrings},
                                                     {"minLength", kStrings},
                                                     {"maxLength", kStrings},
                                                     {"minimum", kWhole | kReals},
                                                     {"maximum", kWhole | kReals},
                                                     {"exclusiveMinimum", kWhole | kReals},
                                                     {"exclusiveMaximum", kWhole | kReals},
                                                     {"multipleOf", kWhole | kReals},
                                                     {"unevaluatedItems", kArrays},
                                                     {"dependentRequired", kObjects},
                                                     {"dependentSchemas", kObjects},
                                                     {"dependencies", kObjects},
                                                     {"unevaluatedProperties", kObjects}}};
constexpr std::array kOtherKeywords = {"type",  "enum", "const",       "$ref",          "allOf", "anyOf",
                                       "oneOf", "not",  "$dynamicRef", "$recursiveRef", "if"};

/// A member of `schema`, or null.
const Json* member(const Json& schema, const char* key) {
  if (!schema.is_object()) return nullptr;
  const auto found = schema.find(key);
  return found == schema.end() ? nullptr : &*found;
}

/// True if the schema has no constraint: only annotations.
bool is_trivial(const Json& schema) {
  if (!schema.is_object()) return schema == true;
  const auto has = [&](const char* key) { return schema.contains(key); };
  return std::ranges::none_of(kOtherKeywords, has) &&
         std::ranges::none_of(kKeywordKinds, [&](const KindName& word) { return has(word.name); });
}

unsigned kinds_of_name(const Json& name) {
  for (const KindName& one : kKindNames) {
    if (name == one.name) return one.kinds;
  }
  return 0;
}

unsigned kinds_of_type(const Json& type) {
  if (!type.is_array()) return kinds_of_name(type);
  unsigned kinds = 0;
  for (const Json& one : type) kinds |= kinds_of_name(one);
  return kinds;
}

unsigned kind_of_value(const Json& value) {
  if (value.is_null()) return kNulls;
  if (value.is_boolean()) return kBooleans;
  if (value.is_string()) return kStrings;
  if (value.is_array()) return kArrays;
  if (value.is_object()) return kObjects;
  return value.is_number_integer() ? kWhole : kWhole | kReals;
}

}  // namespace

double SchemaBuilder::work() const {
  const auto part = [](auto spent, auto limit) {
    return static_cast<double>(spent) / static_cast<double>(limit);
  };
  return part(choices_, kMaxChoices) + part(properties_, kMaxProperties) + part(compared_, kMaxCompared) +
         part(match_work_, kMaxMatchWork);
}

SchemaGraph SchemaGraph::build(const Json& schema, bool object, SchemaWork* work) {
  if (work != nullptr && work->spent > SchemaWork::kMax) {
    SchemaGraph graph;
    graph.nodes_.emplace_back().anything = true;
    graph.broken_ = {"it and the schemas before it take too much work; offer fewer or simpler ones"};
    return graph;
  }
  SchemaBuilder::Schemas schemas = {&schema};
  if (object) schemas.push_back(&object_schema());
  SchemaBuilder first(schema);
  SchemaGraph graph = first.build(schemas);
  const int times = first.splits().empty() ? 1 : 2;
  if (work != nullptr) work->spent += times * first.work();
  return times == 1 ? graph : SchemaBuilder(schema, first.splits()).build(schemas);
}

SchemaGraph SchemaBuilder::build(const Schemas& schemas) {
  graph_.nodes_.emplace_back().anything = true;
  graph_.root_ = node(schemas);
  while (!waiting_.empty()) {
    const auto [id, asked] = std::move(waiting_.back());
    waiting_.pop_back();
    expand(id, asked);
    if (waiting_.empty()) {  // the members of oneOf, once
      for (auto& [list, nodes] : one_of_) {
        if (!nodes.empty()) continue;
        for (const Json& one : *list) nodes.push_back(node({&one}));
      }
    }
  }
  check_literals();
  settle_names();
  drop_impossible();
  check_one_of();
  const bool empty = graph_.root_ == SchemaShape::kNever || graph_.node(graph_.root_).impossible();
  graph_.allows_nothing_ = empty && graph_.broken_.empty();
  if (graph_.allows_nothing_) broken("the schema allows no value");
  if (graph_.root_ == SchemaShape::kNever) graph_.root_ = SchemaGraph::kAnything;
  return std::move(graph_);
}

void SchemaBuilder::broken(const std::string& what) {
  if (std::ranges::find(graph_.broken_, what) == graph_.broken_.end()) graph_.broken_.push_back(what);
}

void SchemaBuilder::unenforced(const std::string& what) {
  auto& list = graph_.unenforced_;
  if (std::ranges::find(list, what) == list.end()) list.push_back(what);
}

int SchemaBuilder::node(const Schemas& schemas) {
  Schemas asked;
  for (const Json* schema : schemas) {
    if (*schema == false) return SchemaShape::kNever;
    if (!is_trivial(*schema) && std::ranges::find(asked, schema) == asked.end()) asked.push_back(schema);
  }
  if (asked.empty()) return SchemaGraph::kAnything;
  const auto known = ids_.find(asked);
  if (known != ids_.end()) return known->second;
  if (graph_.nodes_.size() >= kMaxSchemaNodes) {
    broken(fmt::format("it has more than {} different parts after its references are followed",
                       kMaxSchemaNodes));
    return SchemaGraph::kAnything;
  }
  const int id = static_cast<int>(graph_.nodes_.size());
  graph_.nodes_.emplace_back();
  ids_.emplace(asked, id);
  waiting_.emplace_back(id, std::move(asked));
  return id;
}

void SchemaBuilder::expand(int id, const Schemas& schemas) {
  State state;
  for (auto schema = schemas.rbegin(); schema != schemas.rend(); ++schema) {
    state.todo.push_back({*schema, -1, false});
  }
  std::vector<Schemas> alternatives;
  flatten(std::move(state), alternatives);
  for (const Schemas& flat : alternatives) merge(id, flat);
}

/// Appends every alternative of `state`: lists of schemas without combinations. Alternatives multiply, and
/// those that allow nothing are never listed, so the choices are counted.
void SchemaBuilder::flatten(State state, std::vector<Schemas>& out) {
  choices_ += 1 + ((state.flat.size() + state.todo.size() + state.unions.size()) / 16);  // copied each time
  if (choices_ > kMaxChoices) {
    broken(fmt::format("its anyOf and oneOf need more than {} choices", kMaxChoices));
    return;
  }
  while (!state.todo.empty()) {
    const Entry entry = state.todo.back();
    state.todo.pop_back();
    if (!take(entry, state, out)) return;
  }
  if (!state.unions.empty()) {
    const auto [list, parent] = state.unions.back();
    state.unions.pop_back();
    const auto apart = given_.find(list);
    for (size_t i = 0; i < list->size(); ++i) {
      if (choices_ > kMaxChoices || out.size() > kMaxShapes) return;
      State chosen = state;
      if (apart != given_.end()) chosen.todo.push_back({&apart->second[i], parent, true});
      chosen.todo.push_back({&(*list)[i], parent, true});
      flatten(std::move(chosen), out);
    }
    return;
  }
  if (out.size() == kMaxShapes) {
    broken(fmt::format("its anyOf and oneOf multiply to more than {} alternatives of one value", kMaxShapes));
  }
  Schemas flat;
  for (const Entry& entry : state.flat) flat.push_back(entry.schema);
  out.push_back(std::move(flat));
}

/// Moves an entry to the flat list and adds the schemas that it combines; false if it cannot match.
bool SchemaBuilder::take(const Entry& entry, State& state, std::vector<Schemas>& out) {
  const Json& schema = *entry.schema;
  if (!schema.is_object()) {
    if (!schema.is_boolean()) broken("a schema must be an object, true or false");
    return schema != false;
  }
  bool chosen = entry.choice;  // since the same schema was met
  for (int at = entry.parent; at >= 0;) {
    const Entry& above = state.flat[static_cast<size_t>(at)];
    if (above.schema == &schema) return !chosen;  // an alternative that is the whole again adds nothing
    chosen = chosen || above.choice;
    at = above.parent;
  }
  const auto same = [&](const Entry& other) { return other.schema == &schema; };
  if (std::ranges::any_of(state.flat, same)) return true;
  const Json* nullable = member(schema, "nullable");
  if (nullable != nullptr && *nullable == true && !is_trivial(schema)) {
    State null = state;
    null.todo.push_back({&null_schema(), entry.parent, true});
    flatten(std::move(null), out);
  }
  state.flat.push_back(entry);
  add_combined(schema, static_cast<int>(state.flat.size()) - 1, state);
  return true;
}

void SchemaBuilder::add_combined(const Json& schema, int parent, State& state) {
  for (const char* word : {"oneOf", "anyOf"}) {
    const Json* list = member(schema, word);
    if (list == nullptr) continue;
    if (!list->is_array() || list->empty()) {
      broken(fmt::format("'{}' must be a list of schemas", word));
      continue;
    }
    state.unions.emplace_back(list, parent);
    if (word == std::string_view("oneOf") && list->size() > 1 && !given_.contains(list))
      one_of_.try_emplace(list);
  }
  if (const Json* all = member(schema, "allOf"); all != nullptr && all->is_array()) {
    for (auto one = all->rbegin(); one != all->rend(); ++one) state.todo.push_back({&*one, parent, false});
  }
  if (schema.contains("$ref")) {
    if (const Json* target = referred(schema)) state.todo.push_back({target, parent, false});
  }
  for (const char* word : {"$dynamicRef", "$recursiveRef"}) {
    if (schema.contains(word)) broken(fmt::format("'{}' cannot be followed; use \"$ref\"", word));
  }
}

/// The schema that the "$ref" of `schema` leads to.
const Json* SchemaBuilder::referred(const Json& schema) {
  const Json& reference = schema["$ref"];
  const std::string path = reference.is_string() ? reference.get<std::string>() : write_json(reference);
  const Json* target = reference.is_string() ? places_.find(schema, path) : nullptr;
  if (target == nullptr) {
    const std::string what = fmt::format(
        "the reference '{}' leads nowhere; a reference is \"#\" or a path in the same schema, "
        "such as \"#/$defs/name\"",
        path.substr(0, 200));
    if (std::ranges::find(graph_.lost_, what) == graph_.lost_.end()) graph_.lost_.push_back(what);
  }
  return target;
}

/// Adds the shapes of one alternative to a node.
void SchemaBuilder::merge(int id, const Schemas& flat) {
  unsigned kinds = kAllKinds, told = 0;
  bool typed = false;
  for (const Json* schema : flat) {
    if (const Json* type = member(*schema, "type")) {
      const unsigned named = kinds_of_type(*type);
      if (named == 0) broken(fmt::format("the type {} is not a type of JSON Schema", write_json(*type)));
      kinds &= named, typed = true;
    }
    for (const KindName& word : kKeywordKinds) told |= schema->contains(word.name) ? word.kinds : 0;
  }
  note_unenforced(flat);
  if (merge_literals(id, flat, kinds)) return;
  if (!typed && told == 0) {
    graph_.nodes_[static_cast<size_t>(id)].anything = true;
    return;
  }
  if (!typed) kinds = told;
  const std::pair<unsigned, JsonKind> each[] = {{kNulls, JsonKind::kNull},    {kBooleans, JsonKind::kBoolean},
                                                {kReals, JsonKind::kNumber},  {kWhole, JsonKind::kInteger},
                                                {kArrays, JsonKind::kArray},  {kObjects, JsonKind::kObject},
                                                {kStrings, JsonKind::kString}};
  for (const auto& [bit, kind] : each) {
    if ((kinds & bit) == 0 || (kind == JsonKind::kInteger && (kinds & kReals) != 0)) continue;
    SchemaShape shape;
    if (!shape_of(flat, kind, shape)) continue;
    auto& shapes = graph_.nodes_[static_cast<size_t>(id)].shapes;
    if (std::ranges::find(shapes, shape) == shapes.end()) shapes.push_back(std::move(shape));
  }
}

/// The values of enum and const, if there are any, that all of `flat` allows.
std::optional<std::vector<Json>> SchemaBuilder::listed_values(const Schemas& flat) {
  std::optional<std::vector<Json>> values;
  const auto keep = [&](const Json& asked) {
    if (!values) {
      values.emplace(asked.begin(), asked.end());
      return;
    }
    const std::set<Json> allowed(asked.begin(), asked.end());
    std::erase_if(*values, [&](const Json& value) { return !allowed.contains(value); });
  };
  for (const Json* schema : flat) {
    const Json* list = member(*schema, "enum");
    const Json* one = member(*schema, "const");
    if (list != nullptr && list->is_array()) keep(*list);
    if (one != nullptr) keep(Json::array({*one}));
  }
  return values;
}

/// Adds those values that follow the rest of `flat`; false if there are no lists.
bool SchemaBuilder::merge_literals(int id, const Schemas& flat, unsigned kinds) {
  const std::optional<std::vector<Json>> values = listed_values(flat);
  if (!values || !spend(values->size())) return values.has_value();
  std::map<JsonKind, std::shared_ptr<const SchemaShape>> shapes;
  const auto shape_for = [&](JsonKind kind) {
    const auto [known, fresh] = shapes.try_emplace(kind);
    SchemaShape shape;
    if (fresh && shape_of(flat, kind, shape)) known->second = std::make_shared<SchemaShape>(std::move(shape));
    return known->second;
  };
  std::set<Json>& known = literals_[id];
  for (const Json& value : *values) {
    const bool whole = value.is_number_float() && std::floor(value.get<double>()) == value.get<double>();
    const unsigned kind = whole ? static_cast<unsigned>(kWhole) : kind_of_value(value);
    if ((kinds & kind) == 0 || ((kind & kReals) != 0 && (kinds & kReals) == 0)) continue;
    const auto shape = shape_for(value.is_null()      ? JsonKind::kNull
                                 : value.is_boolean() ? JsonKind::kBoolean
                                 : value.is_string()  ? JsonKind::kString
                                 : value.is_array()   ? JsonKind::kArray
                                 : value.is_object()  ? JsonKind::kObject
                                                      : JsonKind::kNumber);
    if (shape == nullptr || known.contains(value)) continue;
    if (value.is_structured()) {
      checks_.push_back({id, value, shape});
    } else if (!graph_.fits(value, *shape)) {
      continue;
    }
    const Json patterns = shape->limits.value("pattern", Json::array());
    const auto fits = [&](const Json& pattern) { return matches(pattern, value.get<std::string>()); };
    if (value.is_string() && !std::ranges::all_of(patterns, fits)) continue;
    graph_.nodes_[static_cast<size_t>(id)].literals.push_back(value);
    known.insert(value);
  }
  return true;
}

/// Drops literals that are objects or lists and do not follow their shape, once all nodes are known.
void SchemaBuilder::check_literals() {
  std::map<int, std::set<Json>> wrong;
  for (const Check& check : checks_) {
    compared_ += check.shape->properties.size();
    if (compared_ > kMaxCompared) return broken("its enumerations of objects are too long");
    if (!graph_.fits(check.literal, *check.shape)) wrong[check.node].insert(check.literal);
  }
  for (const auto& [id, values] : wrong) {
    std::erase_if(graph_.nodes_[static_cast<size_t>(id)].literals,
                  [&refused = values](const Json& value) { return refused.contains(value); });
  }
}

/// Counts properties and values; false beyond the limit.
bool SchemaBuilder::spend(size_t count) {
  properties_ += count;
  if (properties_ <= kMaxProperties) return true;
  broken(fmt::format("its alternatives have more than {} properties and values together", kMaxProperties));
  return false;
}

void SchemaBuilder::note_unenforced(const Schemas& flat) {
  for (const Json* schema : flat) {
    for (const char* word : {"not", "if", "dependentRequired", "dependentSchemas", "dependencies", "contains",
                             "unevaluatedItems"}) {
      if (schema->contains(word)) unenforced(word);
    }
    const Json* unique = member(*schema, "uniqueItems");
    if (unique != nullptr && *unique == true) unenforced("uniqueItems");
    if (schema != flat.front() && schema->contains("unevaluatedProperties"))
      unenforced("unevaluatedProperties");
  }
}

bool SchemaBuilder::shape_of(const Schemas& flat, JsonKind kind, SchemaShape& shape) {
  shape.kind = kind;
  switch (kind) {
    case JsonKind::kInteger:
    case JsonKind::kNumber:
      return number_shape(flat, shape);
    case JsonKind::kString:
      return string_shape(flat, shape);
    case JsonKind::kArray:
      return array_shape(flat, shape);
    case JsonKind::kObject:
      return object_shape(flat, shape);
    case JsonKind::kNull:
    case JsonKind::kBoolean:
      break;
  }
  return true;
}

}  // namespace ft
