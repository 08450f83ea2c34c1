#include "text/schema_lark.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "base/json.h"
#include "text/json_text.h"
#include "text/pattern.h"

namespace ft {

namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kMaxCount = 100'000;  // of items or characters in a rule; more: unlimited
constexpr double kHugeNumber = 1e15;     // bounds beyond it are kept by the number of digits

/// Any number that a double holds.
constexpr const char* kNumber = R"(/-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?([0-9]{1,2}|[12][0-9]{2}))?/)";

/// %json with the spacing of a model's training data.
std::string json_expression(Json schema) {
  schema["x-guidance"] = {
      {"whitespace_flexible", false}, {"item_separator", ", "}, {"key_separator", ": "}, {"lenient", true}};
  return "%json " + write_json(schema);
}

std::string range(uint64_t least, uint64_t most) {
  if (most > kMaxCount) return fmt::format("{{{},}}", least);
  return fmt::format("{{{},{}}}", least, most);
}

/// A bound that llguidance cannot hold; the digits of a number keep it.
bool huge(const Json& limits, const char* key) {
  return limits.contains(key) && std::abs(limits[key].get<double>()) > kHugeNumber;
}

/// The number of digits before the point that a number within `bound` may have.
int digits_within(double bound) {
  return std::min(static_cast<int>(std::floor(std::log10(std::abs(bound)))), 300);
}

}  // namespace

std::optional<MovedBound> moved_bound(const Json& limits) {
  const auto bound = [&](const char* key) -> std::optional<double> {
    return limits.contains(key) ? std::optional(limits[key].get<double>()) : std::nullopt;
  };
  for (const bool least : {true, false}) {
    const double sign = least ? 1 : -1;  // an upper bound is the lower one of the negated numbers
    const char* const excluded = least ? "exclusiveMinimum" : "exclusiveMaximum";
    const auto low = bound(excluded);
    auto high = bound(least ? "maximum" : "minimum");
    if (!high) high = bound(least ? "exclusiveMaximum" : "exclusiveMinimum");
    if (!low || !high || std::floor(*low) != *low || sign * *low < 0) continue;
    const double away = sign * (*high - *low);
    if (away <= 0 || away >= 1) continue;
    constexpr double kDigits = 6;  // numbers closer to the bound are excluded
    const double step = std::pow(10, std::floor(std::log10(away)) - kDigits);
    const double moved = *low + sign * step;
    const double next = std::nextafter(*low, *high);  // a step may be too small for a double
    return MovedBound{excluded, least ? "minimum" : "maximum", moved == *low ? next : moved};
  }
  return std::nullopt;
}

const ValueNotation kJsonNotation = {.comma = ", ",
                                     .colon = ": ",
                                     .any_text =
                                         "%json {\"type\": \"string\", \"x-guidance\": "
                                         "{\"whitespace_flexible\": false}}"};

std::string SchemaLark::rule(const std::string& expression) {
  const auto [known, fresh] = rules_.try_emplace(expression, fmt::format("{}_r{}", prefix_, rules_.size()));
  if (fresh) lark_ += fmt::format("{}: {}\n", known->second, expression);
  return known->second;
}

std::string SchemaLark::terminal(const std::string& expression) {
  std::string name = fmt::format("{}_T{}", prefix_, rules_.size());
  std::ranges::transform(name, name.begin(), [](char c) { return c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c; });
  const auto [known, fresh] = rules_.try_emplace(expression, name);
  if (fresh) lark_ += fmt::format("{}: {}\n", known->second, expression);
  return known->second;
}

std::string SchemaLark::value(int id) {
  const auto [known, fresh] = names_.try_emplace(id, fmt::format("{}_n{}", prefix_, id));
  if (fresh) waiting_.push_back(id);
  return known->second;
}

void SchemaLark::finish() {
  while (!waiting_.empty()) {
    const int id = waiting_.back();
    waiting_.pop_back();
    const SchemaNode& node = graph_.node(id);
    std::vector<std::string> all;
    if (node.anything) all = {anything()};
    if (!node.anything) {
      for (const Json& value : node.literals) all.push_back(literal(value));
      for (const SchemaShape& one : node.shapes) all.push_back(shape(one, id == graph_.root()));
    }
    std::erase(all, "");
    std::string body;
    for (const std::string& one : all) body += (body.empty() ? "" : " | ") + one;
    if (body.empty()) body = R"("")", unwritable_ = true;
    lark_ += fmt::format("{}: {}\n", names_[id], body);
  }
}

/// Any value, without numbers that a double cannot hold.
std::string SchemaLark::anything() {
  if (!notation_.anything.empty()) return std::string(notation_.anything);
  std::string name = prefix_ + "_any";
  const auto [known, fresh] = rules_.try_emplace(name, name);
  if (!fresh) return name;
  const std::string text = rule(std::string(notation_.any_text)), comma = json_quoted(notation_.comma);
  const std::string pair = fmt::format("{} {} {}", text, json_quoted(notation_.colon), name);
  lark_ += fmt::format(R"({0}: {1} | {2} | "true" | "false" | "null" )"
                       R"(| "[" ({0} ({3} {0})*)? "]" | "{{" ({4} ({3} {4})*)? "}}")"
                       "\n",
                       name, text, rule(kNumber), comma, pair);
  return name;
}

std::string SchemaLark::shape(const SchemaShape& shape, bool is_root) {
  switch (shape.kind) {
    case JsonKind::kNull:
      return R"("null")";
    case JsonKind::kBoolean:
      return rule(R"("true" | "false")");
    case JsonKind::kInteger:
    case JsonKind::kNumber:
      return number(shape);
    case JsonKind::kString:
      return string(shape);
    case JsonKind::kArray:
      return array(shape);
    case JsonKind::kObject:
      break;
  }
  return object(shape, is_root);
}

/// Empty if the notation cannot write it.
std::string SchemaLark::literal(const Json& value) {
  bool possible = true;
  const std::string expression = written(value, possible);
  return possible ? rule(expression) : std::string();
}

std::string SchemaLark::written(const Json& value, bool& possible) {
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    if (notation_.string_quote.empty()) return json_quoted(json_quoted(text));
    possible = possible && text.find(notation_.tag) == std::string::npos;
    const std::string_view quote = notation_.string_quote;
    return text.empty() ? fmt::format("{} {}", quote, quote)
                        : fmt::format("{} {} {}", quote, json_quoted(text), quote);
  }
  if (!value.is_structured()) return json_quoted(write_json(value));
  std::string all = value.is_object() ? R"("{")" : R"("[")";
  std::vector<std::pair<std::string, const Json*>> members;
  for (const auto& [name, one] : value.items()) members.emplace_back(value.is_object() ? name : "", &one);
  if (notation_.sorted_keys && value.is_object()) std::ranges::sort(members);
  bool first = true;
  for (const auto& [name, one] : members) {
    all += first ? "" : " " + json_quoted(notation_.comma);
    if (value.is_object()) all += " " + key(name);
    all += " " + written(*one, possible);
    first = false;
  }
  return all + (value.is_object() ? R"( "}")" : R"( "]")");
}

/// A key with the characters after it.
std::string SchemaLark::key(const std::string& name) {
  if (notation_.quoted_keys) return json_quoted(json_quoted(name) + std::string(notation_.colon));
  const bool bare = !name.empty() && name.find_first_of(":,{}\"<> \t\r\n\f\v") == std::string::npos;
  if (bare) return json_quoted(name + std::string(notation_.colon));
  if (name.empty()) return fmt::format("{0} {0} {1}", notation_.string_quote, json_quoted(notation_.colon));
  return fmt::format("{0} {1} {0} {2}", notation_.string_quote, json_quoted(name),
                     json_quoted(notation_.colon));
}

std::string SchemaLark::number(const SchemaShape& shape) {
  const bool whole = shape.kind == JsonKind::kInteger;
  Json schema = {{"type", whole ? "integer" : "number"}};
  int digits = whole ? 0 : 300;  // of huge bounds; 0: no limit
  bool cut = false, negative = true, positive = true;
  for (const auto& [key, bound] : shape.limits.items()) {
    if (key == "multipleOf") continue;
    const bool least = key.ends_with("inimum");
    if (!huge(shape.limits, key.c_str())) {
      schema[key] = bound;
      continue;
    }
    const auto number = bound.get<double>();
    if ((number > 0) == least) {  // all numbers are beyond it
      (least ? negative : positive) = false;
      unenforced(key);
      continue;
    }
    cut = true, digits = digits == 0 ? digits_within(number) : std::min(digits, digits_within(number));
  }
  if (schema.size() == 1 && !cut && !whole && !shape.limits.contains("multipleOf")) return rule(kNumber);
  if (const auto moved = whole ? std::nullopt : moved_bound(shape.limits)) {
    schema.erase(std::string(moved->excluded));
    schema[std::string(moved->key)] = moved->bound;
  }
  const Json steps = shape.limits.value("multipleOf", Json::array());
  if (steps.size() == 1) schema["multipleOf"] = steps[0];
  for (const Json& step : steps) {
    if (steps.size() > 1) schema["allOf"].push_back({{"multipleOf", step}});
  }
  if (!cut || !negative || !positive) return rule(json_expression(schema));
  if (schema.size() > 1) {  // one huge bound among others: the others keep exponents out
    return rule(json_expression(schema));
  }
  const int more = std::max(digits - 1, 0);
  return rule(fmt::format("/-?(0|[1-9][0-9]{{0,{}}}){}/", more, whole ? "" : "(\\.[0-9]+)?"));
}

/// The conditions on a string, as regular expressions of Lark; empty: it is free.
std::vector<std::string> SchemaLark::text_conditions(const SchemaShape& shape) {
  std::vector<std::string> all;
  if (shape.min > 0 || shape.max != SchemaShape::kNoLimit) {
    if (shape.min > kMaxCount) unenforced("minLength");
    all.push_back(fmt::format("(?s:.{})", range(std::min(shape.min, kMaxCount), shape.max)));
  }
  for (const Json& pattern : shape.limits.value("pattern", Json::array())) {
    const auto text = pattern.get<std::string>();
    const Result<std::string> whole = whole_pattern(text);
    if (whole.ok()) all.push_back(*whole);
    if (!whole.ok())
      unenforced(fmt::format("the pattern '{}' ({})", text.substr(0, 200), whole.error().message));
  }
  for (const Json& format : shape.limits.value("format", Json::array())) {
    const char* pattern = format_pattern(format.get<std::string>());
    if (pattern == nullptr)
      unenforced(fmt::format("the format '{}'", format.get<std::string>().substr(0, 100)));
    if (pattern != nullptr && *pattern != 0) all.emplace_back(pattern);
  }
  return all;
}

std::string SchemaLark::text_terminal(const SchemaShape& shape, std::string_view without,
                                      std::string_view end) {
  std::vector<std::string> all = text_conditions(shape);
  for (std::string& one : all) one = "/" + one + "/";
  if (all.empty()) return {};
  if (!without.empty()) all.push_back(fmt::format("~/(?s:.*){}(?s:.*)/", escaped_for_lark(without)));
  std::string both;
  for (const std::string& one : all) both += (both.empty() ? "" : " & ") + one;
  const std::string text = terminal(both);
  return end.empty() ? text : terminal(fmt::format("{} {}", text, json_quoted(end)));
}

std::string SchemaLark::string(const SchemaShape& shape) {
  if (!notation_.string_quote.empty()) {
    const std::string text = text_terminal(shape, notation_.tag, {});
    if (text.empty()) return rule(std::string(notation_.any_text));
    const std::string_view quote = notation_.string_quote;
    return rule(fmt::format("{0} {1} {0}", quote, text));
  }
  Json schema = {{"type", "string"}};
  if (shape.min > 0) schema["minLength"] = std::min(shape.min, kMaxCount);
  if (shape.min > kMaxCount) unenforced("minLength");
  if (shape.max <= kMaxCount) schema["maxLength"] = shape.max;
  Json patterns = Json::array();
  for (const Json& pattern : shape.limits.value("pattern", Json::array())) {
    const auto text = pattern.get<std::string>();
    const Result<bool> usable = pattern_matches(text, "");
    if (usable.ok()) patterns.push_back({{"pattern", pattern}});
    if (!usable.ok())
      unenforced(fmt::format("the pattern '{}' ({})", text.substr(0, 200), usable.error().message));
  }
  for (const Json& format : shape.limits.value("format", Json::array())) {
    const char* pattern = format_pattern(format.get<std::string>());
    if (pattern == nullptr)
      unenforced(fmt::format("the format '{}'", format.get<std::string>().substr(0, 100)));
    if (pattern != nullptr && *pattern != 0)
      patterns.push_back({{"pattern", fmt::format("^(?:{})$", pattern)}});
  }
  if (patterns.size() == 1) schema["pattern"] = patterns[0]["pattern"];
  if (patterns.size() > 1) schema["allOf"] = patterns;
  return rule(schema.size() == 1 ? std::string(notation_.any_text) : json_expression(schema));
}

std::string SchemaLark::array(const SchemaShape& shape) {
  const std::string comma = json_quoted(notation_.comma);
  const auto end = std::ranges::find_if(shape.prefix, [&](int id) { return never(id); });
  const bool more = end == shape.prefix.end() && !never(shape.rest);
  const auto listed = std::min<uint64_t>(static_cast<uint64_t>(end - shape.prefix.begin()), shape.max);
  if (shape.min > kMaxCount) unenforced("minItems");
  const uint64_t least = std::min(shape.min, kMaxCount);
  // From the last listed item to the first: the items that may follow it.
  std::string after;
  if (more && shape.max > listed) {
    const std::string one = value(shape.rest);
    const uint64_t from = least > listed ? least - listed : 0;
    const uint64_t to = shape.max == SchemaShape::kNoLimit ? shape.max : shape.max - listed;
    const auto further = [&](uint64_t low, uint64_t high) {
      return high == 0 ? std::string() : fmt::format("({} {}){}", comma, one, range(low, high));
    };
    const uint64_t left = to == SchemaShape::kNoLimit ? to : to - 1;
    after = listed > 0
                ? further(from, to)
                : fmt::format("({} {}){}", one, further(from > 0 ? from - 1 : 0, left), from > 0 ? "" : "?");
  }
  for (uint64_t i = listed; i > 0; --i) {
    const std::string item =
        fmt::format("{}{} {}", i == 1 ? "" : comma + " ", value(shape.prefix[i - 1]), after);
    after = i <= least ? item : fmt::format("({})?", item);
    if (i > 1) after = rule(after);
  }
  return rule(fmt::format(R"("[" {} "]")", after));
}

std::string SchemaLark::object(const SchemaShape& shape, bool is_root) {
  std::vector<const SchemaShape::Property*> properties;
  for (const SchemaShape::Property& property : shape.properties) {
    if (!never(property.node)) properties.push_back(&property);
  }
  if (notation_.sorted_keys) std::ranges::sort(properties, {}, &SchemaShape::Property::name);
  std::vector<Item> items;
  for (const SchemaShape::Property* property : properties) {
    if (!notation_.tag.empty() && property->name.find(notation_.tag) != std::string::npos) {
      unenforced(fmt::format("the property '{}', whose name cannot be written", property->name));
      continue;
    }
    items.push_back(
        {rule(fmt::format("{} {}", key(property->name), value(property->node))), property->required});
  }
  Names names;
  names.any = notation_.quoted_keys ? R"("(?:[^"\\\x00-\x1f\x7f]|\\["\\bfnrt])*")"
                                    : R"([^:,{}\[\]"<>\s\x00-\x1f\x7f]{1,64})";
  names.quoted = [this](std::string_view part) {
    return notation_.quoted_keys ? fmt::format("\"(?:{})\"", part) : std::string(part);
  };
  names.entry = [this](const std::string& name, int id) {
    return fmt::format("{} {} {}", name, json_quoted(notation_.colon), value(id));
  };
  // The parameters of a function are fixed; so are the keys of a notation without quotes.
  const bool bounded = is_root || (!notation_.quoted_keys && !items.empty());
  names.others =
      !bounded || (shape.open && (items.empty() || shape.describes_others())) || shape.min > items.size();
  return rule(fmt::format(R"("{{" {} "}}")", entries(items, shape, names, notation_.comma)));
}

}  // namespace ft
