#include "text/tool_grammar.h"

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "text/json_text.h"
#include "text/tool_schema.h"

namespace ft {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kParameterClose = "</parameter>";
constexpr std::string_view kText = "TEXT";            // rule of an answer that is not a call
constexpr std::string_view kAnswer = "answer";        // rule of such an answer with a schema
constexpr std::string_view kValue = "value";          // rule of a string: raw text and </parameter>
constexpr std::string_view kParameter = "any_named";  // rule of a parameter with any name and text

struct Function {
  std::string name;
  Json parameters;  // the schema
};

Result<std::vector<Function>> functions_of(const ToolCallRules& rules) {
  const bool readable = is_json(rules.tools_json, kMaxGrammarDepth);
  const Json tools = readable ? Json::parse(rules.tools_json) : Json();
  if (!tools.is_array() || tools.empty()) {
    return Error{Code::kInvalid,
                 fmt::format("tools must be a JSON array of at least one {{type, function}}, nested at most "
                             "{} levels deep",
                             kMaxGrammarDepth)};
  }
  std::vector<Function> functions;
  for (const Json& tool : tools) {
    const Json& function = tool.is_object() && tool.contains("function") ? tool["function"] : tool;
    if (!function.is_object() || !function.value("name", Json()).is_string()) {
      return Error{Code::kInvalid, "every tool needs a function with a name"};
    }
    const auto name = function["name"].get<std::string>();
    const bool wanted = rules.allowed.empty() ||
                        std::find(rules.allowed.begin(), rules.allowed.end(), name) != rules.allowed.end();
    if (wanted) functions.push_back({name, function.value("parameters", Json::object())});
  }
  if (functions.size() > kMaxToolsOffered) {
    return Error{Code::kInvalid, fmt::format("{} tools can be called, more than the limit of {}; offer fewer",
                                             functions.size(), kMaxToolsOffered)};
  }
  for (const std::string& name : rules.allowed) {
    if (std::none_of(functions.begin(), functions.end(), [&](const auto& f) { return f.name == name; })) {
      return Error{Code::kInvalid, fmt::format("tool_choice: there is no tool '{}' among the tools", name)};
    }
  }
  return functions;
}

/// Checks a name that is written between "=" and ">".
Status check_name(std::string_view name, std::string_view what) {
  if (!name.empty() && name.find_first_of("<>\n") == std::string_view::npos) return {};
  return Error{Code::kInvalid, fmt::format("tools: the {} '{}' cannot be written in a call; use letters, "
                                           "digits, _ and -",
                                           what, name)};
}

/// `schema` as a %json rule; `root` contains its references.
std::string json_rule(const Json& schema, const Json& root, SchemaRule rule = SchemaRule::kLenient) {
  Json whole = schema.is_object() ? schema : Json::object();
  for (const char* shared : {"$defs", "definitions"}) {
    if (root.is_object() && root.contains(shared) && !whole.contains(shared)) whole[shared] = root[shared];
  }
  whole["x-guidance"] = {{"whitespace_flexible", false},
                         {"item_separator", ", "},
                         {"key_separator", ": "},
                         {"lenient", rule == SchemaRule::kLenient}};
  return "%json " + whole.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// The values of an enumeration as literals; empty unless it consists of plain strings.
std::string enumeration(const Json& schema, bool null) {
  Json values = schema.is_object() ? schema.value("enum", Json()) : Json();
  if (schema.is_object() && schema.contains("const")) values = Json::array({schema["const"]});
  if (!values.is_array() || values.empty()) return {};
  std::string literals;
  for (const Json& value : values) {
    if (!value.is_string() && !(null && value.is_null())) return {};
    const std::string text = value.is_null() ? "null" : value.get<std::string>();
    if (text.find(kParameterClose) != std::string::npos) return {};
    literals += (literals.empty() ? "" : " | ") + json_quoted(text);
  }
  return "(" + literals + ")";
}

/// Writes rules into `lark` under names that start with `prefix`, and returns the arguments' expression.
class XmlArguments {
 public:
  XmlArguments(std::string& lark, const Function& function, std::string prefix, const ToolSchemas& types)
      : lark_(lark), function_(function), prefix_(std::move(prefix)), types_(types) {}

  Result<std::string> expression() {
    const Json& schema = function_.parameters;
    const Json properties = schema.is_object() ? schema.value("properties", Json()) : Json();
    if (!properties.is_object()) {
      const bool open = schema.is_object() && schema.contains("additionalProperties") &&
                        schema["additionalProperties"] != false;
      return open ? std::string(kParameter) + "*" : std::string();
    }
    const Json required = schema.value("required", Json::array());
    std::string sequence;
    int index = 0;
    for (const auto& [name, property] : properties.items()) {
      FT_TRY(check_name(name, "parameter"));
      const bool needed =
          required.is_array() && std::find(required.begin(), required.end(), name) != required.end();
      const std::string rule = fmt::format("{}_{}", prefix_, index++);
      const std::string open = json_quoted(fmt::format("<parameter={}>\n", name));
      lark_ += fmt::format("{}: {} {} \"\\n\"\n", rule, open, value(name, property, rule));
      sequence += fmt::format("{}{} ", rule, needed ? "" : "?");
    }
    return sequence;
  }

 private:
  std::string value(const std::string& name, const Json& property, const std::string& rule) {
    const ParameterType& type = types_.type_of(function_.name, name);
    const bool text = type.types.empty() ||
                      std::find(type.types.begin(), type.types.end(), JsonType::kString) != type.types.end();
    if (text) {
      const std::string values = enumeration(property, type.null);
      return values.empty() ? std::string(kValue) : values + " \"\\n</parameter>\"";
    }
    lark_ += fmt::format("{}_json: {}\n", rule, json_rule(property, function_.parameters));
    return rule + "_json \"\\n</parameter>\"";
  }

  std::string& lark_;
  const Function& function_;
  const std::string prefix_;
  const ToolSchemas& types_;
};

/// The text between <tool_call> and </tool_call>.
Result<std::string> call_body(const Function& function, const std::string& prefix, ToolCallForm form,
                              const ToolSchemas& types, std::string& lark) {
  FT_TRY(check_name(function.name, "name"));
  if (form == ToolCallForm::kHermes) {
    const Json& schema = function.parameters;
    const bool object = schema.is_object() && schema.contains("type");
    lark += fmt::format("{}_json: {}\n", prefix,
                        json_rule(object ? schema : Json{{"type", "object"}}, function.parameters));
    const std::string head = fmt::format("\n{{\"name\": {}, \"arguments\": ", json_quoted(function.name));
    return fmt::format("{} {}_json \"}}\\n\"", json_quoted(head), prefix);
  }
  FT_ASSIGN(const std::string arguments, XmlArguments(lark, function, prefix, types).expression());
  const std::string head = json_quoted(fmt::format("\n<function={}>\n", function.name));
  return fmt::format("{} {}\"</function>\\n\"", head, arguments + (arguments.empty() ? "" : " "));
}

/// The rule of an answer that is not a call.
Result<std::string> answer_rule(const ToolCallRules& rules) {
  const bool readable = is_json(rules.answer_schema, kMaxGrammarDepth);
  Json schema = readable ? Json::parse(rules.answer_schema) : Json();
  if (schema == true) schema = Json::object();
  if (schema.is_object()) return json_rule(schema, {}, rules.answer_rule);
  return Error{Code::kInvalid,
               fmt::format("the JSON schema must be an object or true, nested at most {} levels deep",
                           kMaxGrammarDepth)};
}

/// A tag is one token of the vocabulary, or text if there is no such token.
std::string tag(std::string_view text, const Tokenizer& tokenizer) {
  const std::optional<int32_t> id = tokenizer.id_of(text);
  return id && tokenizer.is_added(*id) ? fmt::format("<[{}]>", *id) : json_quoted(text);
}

}  // namespace

ToolCallForm tool_call_form(std::string_view source) {
  for (const std::string_view xml : {"<tool_call>\n<function=", "<tool_call>\\n<function="}) {
    if (source.find(xml) != std::string_view::npos) return ToolCallForm::kXml;
  }
  const bool hermes = source.find("<tool_call>") != std::string_view::npos &&
                      source.find("<|tool_call>") == std::string_view::npos;
  return hermes ? ToolCallForm::kHermes : ToolCallForm::kNone;
}

Result<std::string> tool_call_lark(const ToolCallRules& rules, const Tokenizer& tokenizer) {
  if (rules.form == ToolCallForm::kNone) {
    return Error{
        Code::kUnsupported,
        "the form of tool calls in the model's chat template cannot be enforced; leave "
        "tool_choice at auto, parallel_tool_calls at true, and response_format out while tools are offered"};
  }
  FT_ASSIGN(const std::vector<Function> functions, functions_of(rules));
  FT_ASSIGN(const ToolSchemas types, ToolSchemas::parse(rules.tools_json));
  std::string lark, bodies;
  for (size_t i = 0; i < functions.size(); ++i) {
    const std::string prefix = fmt::format("f{}", i);
    FT_ASSIGN(const std::string body, call_body(functions[i], prefix, rules.form, types, lark));
    lark += fmt::format("{}: {}\n", prefix, body);
    bodies += (i == 0 ? "" : " | ") + prefix;
  }
  const std::string calls = rules.parallel ? "call (\"\\n\" call)*" : "call";
  const bool text = !rules.required && rules.answer_schema.empty();
  std::string start = calls;
  if (text) start = fmt::format("{} | {} | {} {}", kText, calls, kText, calls);
  if (!rules.required && !text) {
    FT_ASSIGN(const std::string answer, answer_rule(rules));
    lark += fmt::format("{}: {}\n", kAnswer, answer);
    start = fmt::format("{} | {}", calls, kAnswer);
  }
  std::string head = fmt::format("start: {}\n", start);
  head += fmt::format("call: {} ({}) {}\n", tag("<tool_call>", tokenizer), bodies,
                      tag("</tool_call>", tokenizer));
  if (text) {
    // Text that the tool parser would read as a call is excluded here.
    head += fmt::format("{}: /(?s:.+)/ & ~/(?s:.*)(<tool_call>|<function=)(?s:.*)/\n", kText);
  }
  if (rules.form == ToolCallForm::kXml) {
    head += fmt::format("{}[suffix=\"{}\"]: /(?s:.*)/\n", kValue, kParameterClose);
    head += fmt::format("{}: \"<parameter=\" /[^<>\\n]{{1,64}}/ \">\\n\" {} \"\\n\"\n", kParameter, kValue);
  }
  return head + lark;
}

}  // namespace ft
