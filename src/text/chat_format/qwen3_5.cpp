#include "text/chat_format/qwen3_5.h"

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "text/chat_format/qwen3_5_parser.h"
#include "text/chat_format/qwen3_5_tags.h"
#include "text/json_text.h"
#include "text/schema_lark.h"
#include "text/tool_grammar.h"

namespace ft {

namespace {

using Json = nlohmann::ordered_json;
using qwen3_5_tags::kParameterClose;
using qwen3_5_tags::kParameterOpen;

constexpr std::string_view kValue = "value";  // of a string: raw text and the parameter's end
constexpr std::string_view kOpenings[] = {qwen3_5_tags::kCallOpen, qwen3_5_tags::kFunctionOpen};

/// The parameters of one function. A value is raw text where the schema allows text, and JSON otherwise.
class XmlArguments {
 public:
  XmlArguments(std::string& lark, const ToolFunction& function, const std::string& prefix)
      : graph_(function.parameters), rules_(graph_, kJsonNotation, prefix, lark) {}

  Result<CallBody> expression() {
    std::string all;
    for (const SchemaShape& shape : graph_.node(graph_.root()).shapes) {
      FT_ASSIGN(const std::string one, parameters(shape));
      all += (all.empty() ? "" : " | ") + one;
    }
    rules_.finish();
    return CallBody{fmt::format("({})", all), rules_.unenforced()};
  }

 private:
  /// The parameters of one alternative, in the schema's order.
  Result<std::string> parameters(const SchemaShape& shape) {
    std::vector<SchemaLark::Item> items;
    for (const SchemaShape::Property& property : shape.properties) {
      if (rules_.never(property.node)) continue;
      FT_TRY(check_name(property.name, "parameter", "<>\n"));
      const std::string open = json_quoted(fmt::format("{}{}>\n", kParameterOpen, property.name));
      items.push_back(
          {rules_.rule(fmt::format("{} {} \"\\n\"", open, value(property.node))), property.required});
    }
    SchemaLark::Names names;
    names.any = "[^<>\\s]{1,64}";
    names.quoted = [](std::string_view part) { return std::string(part); };
    names.entry = [this](const std::string& name, int node) {
      return fmt::format("\"{}\" {} \">\\n\" {} \"\\n\"", kParameterOpen, name, value(node));
    };
    // Other parameters only where the schema describes them, or has no others: models invent some otherwise.
    const bool described = shape.rest != SchemaGraph::kAnything || !shape.patterns.empty();
    names.others = (shape.open && (items.empty() || described)) || shape.min > items.size();
    return rules_.entries(items, shape, names, {});
  }

  /// The text of a value with the end of its parameter.
  std::string value(int id) {
    const SchemaNode& node = graph_.node(id);
    const auto free = [](const SchemaShape& shape) {
      return shape.kind == JsonKind::kString && shape.limits.empty() && shape.min == 0 &&
             shape.max == SchemaShape::kNoLimit;
    };
    if (node.anything || std::ranges::any_of(node.shapes, free)) return std::string(kValue);
    std::string all;
    const auto add = [&](const std::string& one) { all += (all.empty() ? "" : " | ") + one; };
    const std::string end = fmt::format("\n{}", kParameterClose);
    for (const Json& literal : node.literals) {
      const std::string text = literal.is_string() ? literal.get<std::string>() : std::string();
      if (text.find(kParameterClose) != std::string::npos) {
        rules_.unenforced(fmt::format("a value with {}", kParameterClose));
        return std::string(kValue);
      }
      add(literal.is_string() ? json_quoted(text + end)
                              : fmt::format("{} {}", rules_.literal(literal), json_quoted(end)));
    }
    for (const SchemaShape& shape : node.shapes) {
      const std::string text =
          shape.kind == JsonKind::kString ? rules_.text_terminal(shape, kParameterClose, end) : std::string();
      if (shape.kind != JsonKind::kString) {
        add(fmt::format("{} {}", rules_.shape(shape), json_quoted(end)));
      } else if (text.empty()) {
        return std::string(kValue);
      } else {
        add(text);
      }
    }
    return rules_.rule(all);
  }

  const SchemaGraph& graph_;
  SchemaLark rules_;
};

Result<CallBody> call_body(const ToolFunction& function, const std::string& prefix, std::string& lark) {
  FT_TRY(check_name(function.name, "function", "<>\n"));
  FT_ASSIGN(CallBody body, XmlArguments(lark, function, prefix).expression());
  const std::string head = json_quoted(fmt::format("\n{}{}>\n", qwen3_5_tags::kFunctionOpen, function.name));
  body.expression = fmt::format("{} {} \"{}\\n\"", head, body.expression, qwen3_5_tags::kFunctionClose);
  return body;
}

Result<std::string> text_body(const std::string& tool, const TextFormat& format, const std::string& prefix,
                              std::string& lark) {
  const std::string head = json_quoted(
      fmt::format("\n{}{}>\n{}{}>\n", qwen3_5_tags::kFunctionOpen, tool, kParameterOpen, kTextParameter));
  const std::string text = lark_of(format, prefix + "_text", fmt::format("\n{}", kParameterClose), lark);
  return fmt::format("{} {} \"\\n{}\\n\"", head, text, qwen3_5_tags::kFunctionClose);
}

std::string shared_rules() { return fmt::format("{}[suffix=\"{}\"]: /(?s:.*)/\n", kValue, kParameterClose); }

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
