#include "api/anthropic/messages_request.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "api/anthropic/message_blocks.h"
#include "api/anthropic/tools_request.h"
#include "api/sampling_fields.h"
#include "api/tool_parameters.h"
#include "text/reasoning_effort.h"
#include "text/stop_matcher.h"

namespace ft::api {
namespace {

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
  FT_ASSIGN(const auto effort,
            inner.word("effort", std::vector<std::string_view>(kEfforts.begin(), kEfforts.end())));
  if (effort) call.effort = *effort;  // the member `thinking` decides whether to think
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
  Json regular = *schema;
  make_schema_regular(regular);
  call.format = Format::kJsonSchema, call.schema = dump(regular), call.schema_field = shape.at("schema");
  return {};
}

Status read_sampling_and_stops(const Fields& fields, GenerateParams& call) {
  FT_TRY(read_sampling_numbers(fields, call, 1, 0));
  FT_TRY(fields.array("stop_sequences", kMaxStops));  // Anthropic accepts a list only
  FT_ASSIGN(call.stops, read_stops(fields, "stop_sequences"));
  return read_speculation(fields, call);
}

Result<AnthropicConversation> read_conversation(const Fields& fields) {
  FT_ASSIGN(const Json* list, fields.array("messages", kMaxMessages));
  if (list == nullptr || list->empty()) {
    return wrong("messages", "is missing; send a list of at least one message");
  }
  FT_ASSIGN(AnthropicConversation read, read_anthropic_messages(*list, "messages"));
  const Json* system = fields.find("system");
  if (system != nullptr) {
    FT_ASSIGN(const std::string text, read_system(*system, "system", read.notes));
    if (!text.empty()) {
      read.messages.insert(read.messages.begin(), Json{{"role", "system"}, {"content", text}});
    }
  }
  if (read.messages.empty()) return wrong("messages", "has no text for the model; send a user's message");
  return read;
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
  FT_ASSIGN(AnthropicConversation conversation, read_conversation(fields));
  const Json& messages = conversation.messages;
  call.messages = dump(messages);
  call.notes = std::move(conversation.notes);
  FT_TRY(read_anthropic_tools(fields, conversation.changes, call));
  FT_TRY(read_thinking(fields, call));
  FT_TRY(read_output(fields, call));
  if (!conversation.effort.empty()) call.effort = conversation.effort;
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
