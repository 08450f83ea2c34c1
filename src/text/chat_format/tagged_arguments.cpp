#include "text/chat_format/tagged_arguments.h"

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "text/grammar_tags.h"
#include "text/json_text.h"
#include "text/pattern.h"
#include "text/schema_lark.h"
#include "text/tool_grammar.h"

namespace ft {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kValue = "value";  // of a string: raw text and the parameter's end

/// The parameters of one function. A value is raw text where the schema allows text, and JSON otherwise.
class TaggedArguments {
 public:
  TaggedArguments(const ToolFunction& function, const ArgumentTags& tags, const std::string& prefix,
                  std::string& lark)
      : name_(function.name),
        tags_(tags),
        vocabulary_(function.tags),
        close_(function.tags.token(tags.close)),
        graph_(function.parameters),
        rules_(graph_, kJsonNotation, prefix, lark) {}

  Result<CallBody> expression() {
    std::string all;
    for (const SchemaShape& shape : graph_.node(graph_.root()).shapes) {
      FT_ASSIGN(const std::string one, parameters(shape));
      all += (all.empty() ? "" : " | ") + one;
    }
    rules_.finish();
    if (unwritable_) {
      return Error{
          Code::kInvalid,
          fmt::format("the parameters of '{}' need a text that holds {}, which cannot be written in a "
                      "call of this model",
                      name_, tags_.close)};
    }
    return CallBody{fmt::format("({})", all), rules_.unenforced()};
  }

 private:
  /// The parameters of one alternative, in the schema's order.
  Result<std::string> parameters(const SchemaShape& shape) {
    std::vector<SchemaLark::Item> items;
    for (const SchemaShape::Property& property : shape.properties) {
      if (rules_.never(property.node)) continue;
      FT_TRY(check_name(property.name, "parameter", "<>\n"));
      const std::string name = fmt::format("{}{}{}", tags_.before, property.name, tags_.after);
      items.push_back({rules_.rule(entry(vocabulary_.expression(name), property.node)), property.required});
    }
    SchemaLark::Names names;
    names.any = "[^<>\\s]{1,64}";
    names.quoted = [](std::string_view part) { return std::string(part); };
    names.entry = [this](const std::string& name, int node) {
      return entry(fmt::format("{} {} {}", part(tags_.before), name, part(tags_.after)), node);
    };
    // Allows other parameters only if the schema describes them or has no others; else models invent some.
    names.others = (shape.open && (items.empty() || shape.describes_others())) || shape.min > items.size();
    return rules_.entries(items, shape, names, {});
  }

  std::string part(std::string_view tag) const { return tag.empty() ? "" : vocabulary_.expression(tag); }

  /// A parameter, from its name with the tags around it.
  std::string entry(const std::string& name, int node) {
    return fmt::format("{} {} {} {} {}", name, tags_.between, part(tags_.open), value(node), tags_.next);
  }

  /// A text that is written without a change, with the end of its parameter. Unless that is a token, it is
  /// in one lexeme with the text, because lexemes are greedy.
  std::string ended(const std::string& text) const {
    const std::string before = text + std::string(tags_.gap);
    if (!close_) return json_quoted(before + std::string(tags_.close));
    return (before.empty() ? "" : json_quoted(before) + " ") + *close_;
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
    for (const Json& literal : node.literals) {
      const std::string text = literal.is_string() ? literal.get<std::string>() : std::string();
      if (text.find(tags_.close) != std::string::npos) continue;
      add(literal.is_string() ? ended(text) : fmt::format("{} {}", rules_.literal(literal), ended("")));
    }
    for (const SchemaShape& shape : node.shapes) {
      const std::string text = shape.kind == JsonKind::kString ? text_of(shape) : std::string();
      if (shape.kind != JsonKind::kString) {
        add(fmt::format("{} {}", rules_.shape(shape), ended("")));
      } else if (text.empty()) {
        return std::string(kValue);
      } else {
        add(text);
      }
    }
    unwritable_ = unwritable_ || all.empty();
    return rules_.rule(all.empty() ? R"("")" : all);
  }

  /// A text with conditions, with the end of its parameter; empty: the conditions cannot be written.
  std::string text_of(const SchemaShape& shape) {
    if (!close_) return rules_.text_terminal(shape, tags_.close, fmt::format("{}{}", tags_.gap, tags_.close));
    const std::string text = rules_.text_terminal(shape, tags_.close, tags_.gap);
    return text.empty() ? "" : fmt::format("{} {}", text, *close_);
  }

  const std::string& name_;
  const ArgumentTags& tags_;
  const GrammarTags& vocabulary_;
  std::optional<std::string> close_;  // the end of a value, if it is a token
  const SchemaGraph& graph_;
  SchemaLark rules_;
  bool unwritable_ = false;  // a value is needed for which the notation has no text
};

}  // namespace

Result<CallBody> tagged_arguments(const ToolFunction& function, const ArgumentTags& tags,
                                  const std::string& prefix, std::string& lark) {
  return TaggedArguments(function, tags, prefix, lark).expression();
}

std::string tagged_text_rule(const ArgumentTags& tags, const GrammarTags& vocabulary) {
  const std::optional<std::string> close = vocabulary.token(tags.close);
  if (!close) return fmt::format("{}[suffix={}]: /(?s:.*)/\n", kValue, json_quoted(tags.close));
  // Ordinary tokens may spell the tag too, and the parser of calls would end the value there.
  return fmt::format("VALUE_TEXT: /(?s:.*)/ & ~/(?s:.*){}(?s:.*)/\n{}: VALUE_TEXT {}\n",
                     escaped_for_lark(tags.close), kValue, *close);
}

}  // namespace ft
