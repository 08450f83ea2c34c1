#include "api/anthropic/messages_request.h"

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "api/anthropic/message_blocks.h"
#include "api/sampling_fields.h"
#include "text/stop_matcher.h"

namespace ft::api {
namespace {

/// Tools with their own schema; tools that run at Anthropic (such as web search) are left out.
Result<Json> custom_tools(const Json& list) {
  Json tools = Json::array();
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string here = fmt::format("tools[{}]", i);
    if (!list[i].is_object())
      return wrong(here, fmt::format("must be an object, found {}", kind_of(list[i])));
    const Fields fields(list[i], here);
    FT_ASSIGN(const auto type, fields.text("type"));
    if (type.value_or("custom") != "custom") continue;
    FT_ASSIGN(const auto name, fields.text("name"));
    if (!name || name->empty()) return wrong(fields.at("name"), "is missing; each tool has a name");
    FT_ASSIGN(const auto description, fields.text("description"));
    FT_ASSIGN(const Json* schema, fields.object("input_schema"));
    if (schema == nullptr) return wrong(fields.at("input_schema"), "is missing; it is a JSON schema");
    Json function{{"name", *name}};
    if (description) function["description"] = *description;
    function["parameters"] = *schema;
    tools.push_back(Json{{"type", "function"}, {"function", std::move(function)}});
  }
  return tools;
}

Status read_tool_use(const Fields& fields, GenerateParams& call) {
  Json tools = Json::array();
  FT_ASSIGN(const Json* given, fields.array("tools", kMaxTools));
  if (given != nullptr) {
    FT_ASSIGN(tools, custom_tools(*given));
  }
  if (!tools.empty()) call.tools = dump(tools);
  FT_ASSIGN(const Json* choice, fields.object("tool_choice"));
  if (choice == nullptr) return {};
  const Fields inner(*choice, "tool_choice");
  FT_ASSIGN(const auto type, inner.word("type", {"auto", "any", "tool", "none"}));
  if (!type) return wrong("tool_choice.type", "is missing; use auto, any, tool or none");
  FT_ASSIGN(const auto lone, inner.boolean("disable_parallel_tool_use"));
  call.parallel_tools = !lone.value_or(false);
  if (*type == "none") call.tool_choice = ToolChoice::kNone;
  if (*type == "any") call.tool_choice = ToolChoice::kRequired;
  if (*type == "any" && tools.empty()) {
    return wrong("tool_choice", "\"any\" needs at least one tool with an input_schema in tools");
  }
  if (*type != "tool") return {};
  FT_ASSIGN(const auto name, inner.text("name"));
  if (!name) return wrong("tool_choice.name", "is missing");
  call.tool_choice = ToolChoice::kNamed, call.named_tool = *name;
  const bool known = std::any_of(tools.begin(), tools.end(),
                                 [&](const Json& tool) { return tool["function"]["name"] == *name; });
  if (!known) return wrong("tool_choice.name", fmt::format("no tool is called \"{}\"", *name));
  return {};
}

Status read_thinking(const Fields& fields, GenerateParams& call) {
  call.think = false;
  FT_ASSIGN(const Json* thinking, fields.object("thinking"));
  if (thinking == nullptr) return {};
  const Fields inner(*thinking, "thinking");
  FT_ASSIGN(const auto type, inner.word("type", {"enabled", "adaptive", "between_tools", "disabled"}));
  if (!type) return wrong("thinking.type", "is missing; use enabled, adaptive or disabled");
  call.think = *type != "disabled";
  if (*type != "enabled") return {};
  FT_ASSIGN(const auto budget, inner.integer("budget_tokens", 1, 1 << 24));
  if (!budget) return wrong("thinking.budget_tokens", "is missing; thinking that is enabled has a budget");
  if (call.max_tokens > 0 && *budget >= call.max_tokens) {
    return wrong("thinking.budget_tokens",
                 fmt::format("must be less than max_tokens ({}), found {}", call.max_tokens, *budget));
  }
  call.thinking_budget = static_cast<int>(*budget);
  return {};
}

/// output_config: {effort, format: {type: json_schema, schema}}; output_format is the older name of format.
Status read_output(const Fields& fields, GenerateParams& call) {
  FT_ASSIGN(const Json* config, fields.object("output_config"));
  const Json empty = Json::object();
  const Fields inner(config != nullptr ? *config : empty, "output_config");
  FT_ASSIGN(const auto effort, inner.text("effort"));
  // The highest effort is the template's default.
  if (effort == "low" || effort == "medium") {
    call.template_variables = dump(Json{{"reasoning_effort", *effort}});
  }
  FT_ASSIGN(const Json* format, inner.object("format"));
  std::string path = "output_config.format";
  if (format == nullptr) {
    FT_ASSIGN(format, fields.object("output_format"));
    path = "output_format";
  }
  if (format == nullptr) return {};
  const Fields shape(*format, path);
  FT_ASSIGN(const auto type, shape.word("type", {"json_schema"}));
  if (!type) return wrong(shape.at("type"), "is missing; use json_schema");
  FT_ASSIGN(const Json* schema, shape.object("schema"));
  if (schema == nullptr) return wrong(shape.at("schema"), "is missing");
  call.format = Format::kJsonSchema, call.schema = dump(*schema), call.schema_field = shape.at("schema");
  return {};
}

Status read_sampling_and_stops(const Fields& fields, GenerateParams& call) {
  FT_TRY(read_sampling_numbers(fields, call, 1, 0));
  FT_TRY(fields.array("stop_sequences", kMaxStops));  // Anthropic accepts a list only
  FT_ASSIGN(call.stops, read_stops(fields, "stop_sequences"));
  return read_speculation(fields, call);
}

Result<Json> conversation(const Fields& fields) {
  FT_ASSIGN(const Json* list, fields.array("messages", kMaxMessages));
  if (list == nullptr || list->empty()) {
    return wrong("messages", "is missing; send a list of at least one message");
  }
  FT_ASSIGN(Json messages, read_anthropic_messages(*list, "messages"));
  const Json* system = fields.find("system");
  if (system == nullptr) return messages;
  FT_ASSIGN(const std::string text, read_system(*system, "system"));
  if (!text.empty()) messages.insert(messages.begin(), Json{{"role", "system"}, {"content", text}});
  return messages;
}

}  // namespace

Result<GenerateParams> read_messages_call(const Json& body, Purpose purpose) {
  GenerateParams call;
  const Fields fields(body, "");
  FT_ASSIGN(const auto model, fields.text("model"));
  call.model = model.value_or("");
  if (purpose == Purpose::kAnswer) {
    FT_ASSIGN(const auto most, fields.integer("max_tokens", 1, 1 << 30));
    if (!most) return wrong("max_tokens", "is missing; set the maximum number of tokens in the answer");
    call.max_tokens = *most;
  }
  FT_ASSIGN(const Json messages, conversation(fields));
  call.messages = dump(messages);
  FT_TRY(read_tool_use(fields, call));
  FT_TRY(read_thinking(fields, call));
  FT_TRY(read_output(fields, call));
  FT_TRY(read_sampling_and_stops(fields, call));
  const Json& last = messages.back();
  call.continues = last["role"] == "assistant" && !last.contains("tool_calls");
  if (call.continues && *call.think) {
    return wrong("messages",
                 "the last message is the assistant's, and thinking cannot continue it; turn thinking "
                 "off, or end with a user's message");
  }
  return call;
}

}  // namespace ft::api
