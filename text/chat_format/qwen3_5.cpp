#include "text/chat_format/qwen3_5.h"

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "text/chat_format/qwen3_5_parser.h"
#include "text/chat_format/qwen3_5_tags.h"
#include "text/json_text.h"
#include "text/tool_grammar.h"

namespace ft {

namespace {

using Json = nlohmann::ordered_json;
using qwen3_5_tags::kParameterClose;
using qwen3_5_tags::kParameterOpen;

constexpr std::string_view kValue = "value";          // of a string: raw text and the parameter's end
constexpr std::string_view kParameter = "any_named";  // any name, any text
constexpr std::string_view kOpenings[] = {qwen3_5_tags::kCallOpen, qwen3_5_tags::kFunctionOpen};

/// The values of an enumeration as literals; empty if it is none of plain strings.
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

/// Rules are written into `lark` under names that begin with `prefix`; returned is the arguments' expression.
class XmlArguments {
 public:
  XmlArguments(std::string& lark, const ToolFunction& function, std::string prefix, const ToolSchemas& types)
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
      const std::string open = json_quoted(fmt::format("{}{}>\n", kParameterOpen, name));
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
  const ToolFunction& function_;
  const std::string prefix_;
  const ToolSchemas& types_;
};

Result<std::string> call_body(const ToolFunction& function, const std::string& prefix,
                              const ToolSchemas& types, std::string& lark) {
  FT_ASSIGN(const std::string arguments, XmlArguments(lark, function, prefix, types).expression());
  const std::string head = json_quoted(fmt::format("\n{}{}>\n", qwen3_5_tags::kFunctionOpen, function.name));
  return fmt::format("{} {}\"{}\\n\"", head, arguments + (arguments.empty() ? "" : " "),
                     qwen3_5_tags::kFunctionClose);
}

Result<std::string> text_body(const std::string& tool, const TextFormat& format, const std::string& prefix,
                              std::string& lark) {
  const std::string head = json_quoted(
      fmt::format("\n{}{}>\n{}{}>\n", qwen3_5_tags::kFunctionOpen, tool, kParameterOpen, kTextParameter));
  const std::string text = lark_of(format, prefix + "_text", fmt::format("\n{}", kParameterClose), lark);
  return fmt::format("{} {} \"\\n{}\\n\"", head, text, qwen3_5_tags::kFunctionClose);
}

std::string shared_rules() {
  return fmt::format("{}[suffix=\"{}\"]: /(?s:.*)/\n", kValue, kParameterClose) +
         fmt::format("{}: \"{}\" /[^<>\\n]{{1,64}}/ \">\\n\" {} \"\\n\"\n", kParameter, kParameterOpen,
                     kValue);
}

std::unique_ptr<ToolParser> make_parser(ToolSchemas schemas) {
  return std::make_unique<Qwen35Parser>(std::move(schemas));
}

constexpr ReasoningTags kReasoning = {"<think>", "</think>", "\n\n"};
constexpr std::array<std::string_view, 3> kMiddle = {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"};

}  // namespace

constinit const ChatFormat kQwen35Format = {"qwen3_5",
                                            kReasoning,
                                            {qwen3_5_tags::kCallOpen,
                                             qwen3_5_tags::kCallClose,
                                             qwen3_5_tags::kFunctionOpen,
                                             kOpenings,
                                             make_parser,
                                             call_body,
                                             shared_rules,
                                             "\n",
                                             {},
                                             text_body},
                                            kMiddle};

constinit const ChatFormat kQwen35FormatWithoutGrammar = {
    "qwen3_5 without a grammar of calls",
    kReasoning,
    {qwen3_5_tags::kCallOpen, qwen3_5_tags::kCallClose, qwen3_5_tags::kFunctionOpen, kOpenings, make_parser,
     nullptr, nullptr},
    kMiddle};

bool is_qwen3_5_template(std::string_view source) {
  const std::string open(qwen3_5_tags::kCallOpen);
  for (const char* newline : {"\n", "\\n"}) {
    if (source.find((open + newline).append(qwen3_5_tags::kFunctionOpen)) != std::string_view::npos)
      return true;
  }
  return false;
}

}  // namespace ft
