#include "api/openai/responses_request.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "api/openai/chat_request.h"
#include "api/openai/responses_items.h"
#include "api/sampling_fields.h"
#include "base/json.h"

namespace ft::api {
namespace {

/// Refuses members that this server does not support and that must not be ignored silently.
constexpr std::array<std::string_view, 2> kRefused{"conversation", "prompt"};

/// A custom tool as the model sees it: a function with one text parameter.
Result<Json> custom_function(const Json& tool, const std::string& path) {
  const Fields fields(tool, path);
  FT_ASSIGN(const auto name, fields.text("name"));
  if (!name || name->empty()) return wrong(fields.at("name"), "is missing");
  FT_ASSIGN(const auto description, fields.text("description"));
  FT_ASSIGN(const Json* format, fields.object("format"));
  std::string input = "The input, as plain text";
  if (format != nullptr) {
    const Fields inner(*format, fields.at("format"));
    FT_ASSIGN(const auto syntax, inner.text("syntax"));
    FT_ASSIGN(const auto definition, inner.text("definition"));
    if (definition) {
      input += fmt::format(" in the form of this grammar ({}):\n{}", syntax.value_or("lark"), *definition);
    }
  }
  const Json text{{"type", "string"}, {"description", std::move(input)}};
  return Json{
      {"name", *name},
      {"description", description.value_or("")},
      {"parameters",
       {{"type", "object"}, {"properties", {{"input", text}}}, {"required", Json::array({"input"})}}}};
}

/// Converts function and custom tools to the chat API's list of functions.
Result<Json> read_response_tools(const Json& list, ResponsesRequest& request) {
  Json tools = Json::array();
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string path = fmt::format("tools[{}]", i);
    if (!list[i].is_object()) {
      return wrong(path, fmt::format("must be an object, found {}", kind_of(list[i])));
    }
    FT_ASSIGN(const auto type, Fields(list[i], path).text("type"));
    if (type == "custom") {
      FT_ASSIGN(Json function, custom_function(list[i], path));
      request.customs.insert(function["name"].get<std::string>());
      tools.push_back(Json{{"type", "function"}, {"function", std::move(function)}});
      continue;
    }
    if (type.value_or("function") != "function") continue;  // hosted, or a namespace
    Result<Json> one = read_tools(Json::array({list[i]}), "tools");
    if (!one.ok()) {  // replaces index 0 with this tool's index
      Error error = one.error();
      for (std::string* text : {&error.field, &error.message}) {
        if (text->starts_with("tools[0]")) text->replace(0, 8, path);
      }
      return error;
    }
    for (Json& tool : *one) tools.push_back(std::move(tool));
  }
  return tools;
}

/// The chat API's choices, the flat named form, and allowed_tools, of which only the mode is used.
Status read_response_tool_choice(const Json& body, const Json& tools, GenerateParams& call) {
  Json choice;
  if (const auto given = body.find("tool_choice"); given != body.end()) choice = *given;
  if (choice.is_object()) {
    FT_ASSIGN(const auto type, Fields(choice, "tool_choice").text("type"));
    if (type == "allowed_tools") {
      choice = choice.contains("mode") ? choice["mode"] : Json("auto");
    } else if (type != "function" && type != "custom") {
      choice = "auto";  // a hosted tool cannot run here
    }
  }
  Json asked{{"tool_choice", std::move(choice)}};
  if (const auto parallel = body.find("parallel_tool_calls"); parallel != body.end()) {
    asked["parallel_tool_calls"] = *parallel;
  }
  return read_tool_choice(Fields(asked, ""), tools, call);
}

Status read_reasoning(const Fields& fields, ResponsesRequest& request) {
  FT_ASSIGN(const Json* reasoning, fields.object("reasoning"));
  Json variables = Json::object();
  FT_ASSIGN(const Json* given, fields.object("chat_template_kwargs"));
  if (given != nullptr) variables = *given;
  if (reasoning != nullptr) {
    const Fields inner(*reasoning, "reasoning");
    FT_ASSIGN(const auto effort, inner.text("effort"));
    FT_ASSIGN(const auto summary, inner.text("summary"));
    request.summarises = summary && *summary != "none";
    if (effort) {
      request.call.think = thinks_at(*effort);
      if (!variables.contains("reasoning_effort")) variables["reasoning_effort"] = *effort;
    }
  }
  if (const auto think = variables.find("enable_thinking"); think != variables.end()) {
    if (!think->is_boolean()) {
      return wrong("chat_template_kwargs.enable_thinking",
                   fmt::format("must be true or false, found {}", kind_of(*think)));
    }
    request.call.think = think->get<bool>();
    variables.erase("enable_thinking");
  }
  if (!variables.empty()) request.call.template_variables = dump(variables);
  FT_ASSIGN(const auto budget, fields.integer("thinking_budget", -1, 1 << 24));
  request.call.thinking_budget = static_cast<int>(budget.value_or(-1));
  return {};
}

Status read_format(const Fields& fields, GenerateParams& call) {
  FT_ASSIGN(const Json* text, fields.object("text"));
  if (text == nullptr) return {};
  const Fields inner(*text, "text");
  FT_ASSIGN(const auto verbosity, inner.word("verbosity", {"low", "medium", "high"}));
  (void)verbosity;  // accepted and ignored: the model has no such setting
  FT_ASSIGN(const Json* format, inner.object("format"));
  if (format == nullptr) return {};
  return read_response_format(*format, "text.format", call);
}

Status read_logprobs(const Fields& fields, GenerateParams& call) {
  FT_ASSIGN(const auto top, fields.integer("top_logprobs", 0, kMaxTopLogprobsAsked));
  FT_ASSIGN(const Json* include, fields.array("include", 64));
  bool asked = top && *top > 0;
  if (include != nullptr) {
    asked |= std::find(include->begin(), include->end(), "message.output_text.logprobs") != include->end();
  }
  if (asked) call.logprobs = static_cast<int>(top.value_or(0));
  return {};
}

/// The history of previous_response_id, or an empty list.
Result<Json> read_history(const Fields& fields, ResponseStore* store) {
  FT_ASSIGN(const auto previous, fields.text("previous_response_id"));
  if (!previous) return Json::array();
  std::optional<StoredResponse> stored;
  if (store != nullptr) stored = store->get(*previous);
  if (stored) return read_json<Json>(stored->history);
  return Error{
      Code::kNotFound,
      fmt::format("previous_response_id: no response \"{}\" is stored; it was sent with store: false, "
                  "deleted, or evicted; send the whole input instead",
                  *previous),
      "previous_response_id"};
}

/// Members of the response that repeat the request, in OpenAI's order.
Json echo_of(const Json& body, const ResponsesRequest& request) {
  const auto or_null = [&](const char* name) { return body.contains(name) ? body[name] : Json(); };
  const auto or_else = [&](const char* name, const Json& other) {
    return body.contains(name) && !body[name].is_null() ? body[name] : other;
  };
  Json text = or_else("text", Json::object());
  if (!text.contains("format") || text["format"].is_null()) text["format"] = Json{{"type", "text"}};
  return Json{{"instructions", or_null("instructions")},
              {"max_output_tokens", or_null("max_output_tokens")},
              {"metadata", or_else("metadata", Json::object())},
              {"parallel_tool_calls", request.call.parallel_tools},
              {"previous_response_id", or_null("previous_response_id")},
              {"prompt_cache_key", or_null("prompt_cache_key")},
              {"reasoning", or_else("reasoning", Json{{"effort", nullptr}, {"summary", nullptr}})},
              {"store", request.store},
              {"text", std::move(text)},
              {"tool_choice", or_else("tool_choice", "auto")},
              {"tools", or_else("tools", Json::array())},
              {"top_logprobs", std::max(0, request.call.logprobs)},
              {"truncation", "disabled"},
              {"user", or_null("user")}};
}

Status refuse_what_is_missing(const Fields& fields) {
  for (const std::string_view name : kRefused) {
    if (fields.find(name) == nullptr) continue;
    return Error{Code::kUnsupported,
                 fmt::format("{}: this server does not support it; send the input itself", name),
                 std::string(name)};
  }
  FT_ASSIGN(const auto background, fields.boolean("background"));
  if (!background.value_or(false)) return {};
  return Error{Code::kUnsupported, "background: answers are not decoded in the background here; use stream",
               "background"};
}

}  // namespace

Result<ResponsesRequest> read_responses(const Json& body, ResponseStore* store) {
  ResponsesRequest request;
  GenerateParams& call = request.call;
  const Fields fields(body, "");
  FT_TRY(refuse_what_is_missing(fields));
  FT_ASSIGN(const auto model, fields.text("model"));
  call.model = model.value_or("");
  FT_ASSIGN(Json items, read_history(fields, store));
  const std::size_t skipped = items.size();
  const Json* input = fields.find("input");
  if (input == nullptr) return wrong("input", "is missing; send a string or a list of items");
  FT_ASSIGN(const Json fresh, read_input(*input));
  for (const Json& item : fresh) items.push_back(item);
  if (items.empty()) return wrong("input", "is empty; send at least one item");
  FT_ASSIGN(Json messages, messages_of(items, skipped));
  FT_ASSIGN(const auto instructions, fields.text("instructions"));
  if (instructions) {
    messages.insert(messages.begin(), Json{{"role", "system"}, {"content", *instructions}});
  }
  call.messages = dump(messages);
  request.items = dump(items);
  Json tools = Json::array();
  FT_ASSIGN(const Json* given, fields.array("tools", kMaxTools));
  if (given != nullptr) {
    FT_ASSIGN(tools, read_response_tools(*given, request));
  }
  if (!tools.empty()) call.tools = dump(tools);
  call.strict_tools = any_strict(tools);
  FT_TRY(read_response_tool_choice(body, tools, call));
  FT_TRY(read_reasoning(fields, request));
  FT_TRY(read_format(fields, call));
  FT_TRY(read_logprobs(fields, call));
  FT_TRY(read_sampling(fields, call));
  call.choices = 1;  // the API has no n
  FT_TRY(read_speculation(fields, call));
  FT_ASSIGN(const auto most, fields.integer("max_output_tokens", 1, 1 << 30));
  call.max_tokens = most.value_or(0);
  FT_ASSIGN(const auto truncation, fields.word("truncation", {"auto", "disabled"}));
  (void)truncation;  // long prompts are always refused; the answer says "disabled"
  FT_ASSIGN(const auto keep, fields.boolean("store"));
  request.store = keep.value_or(true);
  FT_ASSIGN(const Json* metadata, fields.object("metadata"));
  (void)metadata;
  request.echo = dump(echo_of(body, request));
  return request;
}

}  // namespace ft::api
