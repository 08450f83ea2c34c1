#include "text/chat_format/tagged_arguments.h"

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "text/json_text.h"
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
      : tags_(tags), graph_(function.parameters), rules_(graph_, kJsonNotation, prefix, lark) {}

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
      const std::string open = json_quoted(fmt::format("{}{}{}", tags_.before, property.name, tags_.after));
      items.push_back(
          {rules_.rule(fmt::format("{} {} {} {}", open, tags_.into, value(property.node), tags_.next)),
           property.required});
    }
    SchemaLark::Names names;
    names.any = "[^<>\\s]{1,64}";
    names.quoted = [](std::string_view part) { return std::string(part); };
    names.entry = [this](const std::string& name, int node) {
      return fmt::format("{} {} {} {} {} {}", json_quoted(tags_.before), name, json_quoted(tags_.after),
                         tags_.into, value(node), tags_.next);
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
    const std::string end = fmt::format("{}{}", tags_.gap, tags_.close);
    for (const Json& literal : node.literals) {
      const std::string text = literal.is_string() ? literal.get<std::string>() : std::string();
      if (text.find(tags_.close) != std::string::npos) {
        rules_.unenforced(fmt::format("a value with {}", tags_.close));
        return std::string(kValue);
      }
      add(literal.is_string() ? json_quoted(text + end)
                              : fmt::format("{} {}", rules_.literal(literal), json_quoted(end)));
    }
    for (const SchemaShape& shape : node.shapes) {
      const std::string text =
          shape.kind == JsonKind::kString ? rules_.text_terminal(shape, tags_.close, end) : std::string();
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

  const ArgumentTags& tags_;
  const SchemaGraph& graph_;
  SchemaLark rules_;
};

}  // namespace

Result<CallBody> tagged_arguments(const ToolFunction& function, const ArgumentTags& tags,
                                  const std::string& prefix, std::string& lark) {
  return TaggedArguments(function, tags, prefix, lark).expression();
}

std::string tagged_text_rule(const ArgumentTags& tags) {
  return fmt::format("{}[suffix=\"{}\"]: /(?s:.*)/\n", kValue, tags.close);
}

}  // namespace ft
