#include "text/chat_format/gemma4.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <nlohmann/json.hpp>

#include "text/chat_format/gemma4_parser.h"
#include "text/chat_format/gemma4_tags.h"
#include "text/json_text.h"
#include "text/tool_grammar.h"

namespace ft {

namespace {

using Json = nlohmann::ordered_json;

constexpr int kMaxNesting = 16;  // of schemas in the grammar; deeper values may be anything
constexpr std::string_view kOpenings[] = {gemma4_tags::kCallOpen};
constexpr std::string_view kMarks[] = {gemma4_tags::kChannelOpen, gemma4_tags::kChannelClose,
                                       gemma4_tags::kCallOpen, gemma4_tags::kCallClose, gemma4_tags::kQuote};

/// Writes rules into `lark` under names that begin with `prefix`.
class CallArguments {
 public:
  CallArguments(std::string& lark, const ToolFunction& function, std::string prefix)
      : lark_(lark), root_(function.parameters), prefix_(std::move(prefix)) {}

  Result<std::string> object(const Json& schema, int depth) {
    const Json properties = schema.is_object() ? schema.value("properties", Json()) : Json();
    if (!properties.is_object() || properties.empty()) {
      const bool open = schema.is_object() && schema.value("additionalProperties", Json()) != Json(false) &&
                        (depth > 0 || schema.contains("additionalProperties"));
      return std::string(open ? "any_object" : R"("{}")");
    }
    // The template writes keys in this order, so the model does.
    std::map<std::string, const Json*> sorted;
    for (const auto& [name, property] : properties.items()) sorted.emplace(name, &property);
    const Json required = schema.value("required", Json::array());
    std::vector<Item> items;
    for (const auto& [name, property] : sorted) {
      FT_TRY(check_name(name, "parameter"));
      if (name.find_first_of(":,{}[]\"") != std::string::npos) return check_name("", "parameter").error();
      FT_ASSIGN(const std::string value, expression(*property, depth + 1));
      const bool needed = required.is_array() && std::ranges::find(required, Json(name)) != required.end();
      items.push_back({rule(fmt::format("{} {}", json_quoted(name + ":"), value)), needed});
    }
    return R"("{" )" + sequence(items) + R"( "}")";
  }

 private:
  struct Item {
    std::string rule;
    bool needed;
  };

  std::string rule(const std::string& expression) {
    std::string name = fmt::format("{}_{}", prefix_, rules_++);
    lark_ += fmt::format("{}: {}\n", name, expression);
    return name;
  }

  /// The items in order, those that are not needed or not at all, with commas between.
  std::string sequence(const std::vector<Item>& items) {
    std::string after = R"("")", alone = R"("")";  // what may follow an item, and what may begin
    for (auto item = items.rbegin(); item != items.rend(); ++item) {
      const std::string begins = fmt::format("{} {}", item->rule, after);
      alone = rule(item->needed ? begins : fmt::format("{} | {}", begins, alone));
      after = rule(fmt::format(R"("," {}{})", begins, item->needed ? "" : fmt::format(" | {}", after)));
    }
    return alone;
  }

  Result<std::string> expression(const Json& schema, int depth) {
    if (!schema.is_object() || depth > kMaxNesting) return std::string("any_value");
    if (schema.contains("$ref")) return expression(referred(schema["$ref"]), depth + 1);
    if (schema.contains("const")) return literal(schema["const"]);
    for (const char* list : {"enum", "anyOf", "oneOf"}) {
      const Json choices = schema.value(list, Json());
      if (choices.is_array() && !choices.empty())
        return any_of(choices, list == std::string_view("enum"), depth);
    }
    const Json type = schema.value("type", Json());
    if (type.is_string()) return of_type(schema, type.get<std::string>(), depth);
    if (!type.is_array() || type.empty()) return std::string("any_value");
    std::string all;
    for (const Json& one : type) {
      FT_ASSIGN(const std::string part,
                of_type(schema, one.is_string() ? one.get<std::string>() : std::string(), depth));
      all += (all.empty() ? "" : " | ") + part;
    }
    return "(" + all + ")";
  }

  Result<std::string> any_of(const Json& choices, bool literals, int depth) {
    std::string all;
    for (const Json& choice : choices) {
      FT_ASSIGN(const std::string part, literals ? literal(choice) : expression(choice, depth + 1));
      all += (all.empty() ? "" : " | ") + part;
    }
    return "(" + all + ")";
  }

  static Result<std::string> literal(const Json& value) {
    if (value.is_structured()) return std::string("any_value");
    if (!value.is_string()) return json_quoted(value.dump());
    const auto text = value.get<std::string>();
    return text.empty() ? std::string("quote quote") : fmt::format("quote {} quote", json_quoted(text));
  }

  Result<std::string> of_type(const Json& schema, const std::string& type, int depth) {
    if (type == "string") return std::string("text");
    if (type == "boolean") return std::string(R"(("true" | "false"))");
    if (type == "null") return std::string(R"("null")");
    if (type == "object") return object(schema, depth);
    if (type == "integer" || type == "number") return rule(json_rule(bounds_of(schema, type), root_));
    if (type != "array") return std::string("any_value");
    FT_ASSIGN(const std::string item, expression(schema.value("items", Json()), depth + 1));
    const std::string one = rule(item);
    return fmt::format(R"("[" ({} ("," {})*)? "]")", one, one);
  }

  static Json bounds_of(const Json& schema, const std::string& type) {
    Json number = {{"type", type}};
    for (const char* bound : {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}) {
      if (schema.contains(bound)) number[bound] = schema[bound];
    }
    return number;
  }

  Json referred(const Json& reference) const {
    const std::string path = reference.is_string() ? reference.get<std::string>() : std::string();
    if (!path.starts_with("#/")) return {};
    const Json* at = &root_;
    for (size_t from = 2; at != nullptr && from <= path.size();) {
      const size_t slash = std::min(path.find('/', from), path.size());
      const auto found = at->is_object() ? at->find(path.substr(from, slash - from)) : at->end();
      at = at->is_object() && found != at->end() ? &*found : nullptr;
      from = slash + 1;
    }
    return at == nullptr ? Json() : *at;
  }

  std::string& lark_;
  const Json& root_;
  const std::string prefix_;
  int rules_ = 0;
};

Result<std::string> call_body(const ToolFunction& function, const std::string& prefix,
                              const ToolSchemas& /*types*/, std::string& lark) {
  FT_ASSIGN(const std::string arguments,
            CallArguments(lark, function, prefix).object(function.parameters, 0));
  return fmt::format("{} {}", json_quoted(std::string(gemma4_tags::kCallWord) + function.name), arguments);
}

Result<std::string> text_body(const std::string& tool, const TextFormat& format, const std::string& prefix,
                              std::string& lark) {
  const std::string head =
      json_quoted(fmt::format("{}{}{{{}:", gemma4_tags::kCallWord, tool, kTextParameter));
  return fmt::format("{} quote {} quote \"}}\"", head, lark_of(format, prefix + "_text", {}, lark));
}

std::string shared_rules() {
  return "text: quote /(?s:.*)/ quote\n"
         "any_value: text | /-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][+-]?[0-9]+)?/ | \"true\" | \"false\" | "
         "\"null\" "
         "| any_object | any_array\n"
         "any_object: \"{\" (any_pair (\",\" any_pair)*)? \"}\"\n"
         "any_pair: /[A-Za-z0-9_.-]{1,64}/ \":\" any_value\n"
         "any_array: \"[\" (any_value (\",\" any_value)*)? \"]\"\n";
}

std::unique_ptr<ToolParser> make_parser(ToolSchemas schemas) {
  return std::make_unique<Gemma4Parser>(std::move(schemas));
}

}  // namespace

constinit const ChatFormat kGemma4Format = {"gemma4",
                                            {gemma4_tags::kThoughtOpen, gemma4_tags::kChannelClose, {}},
                                            {gemma4_tags::kCallOpen,
                                             gemma4_tags::kCallClose,
                                             gemma4_tags::kCallWord,
                                             kOpenings,
                                             make_parser,
                                             call_body,
                                             shared_rules,
                                             {},
                                             gemma4_tags::kQuote,
                                             text_body},
                                            {},
                                            kMarks};

}  // namespace ft
