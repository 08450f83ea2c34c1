#include "api/openai/chat_request.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "api/call_arguments.h"
#include "api/image_parts.h"
#include "api/openai/tools_request.h"
#include "api/sampling_fields.h"
#include "api/thinking_fields.h"
#include "api/tool_parameters.h"

namespace ft::api {
namespace {

constexpr std::array<std::string_view, 6> kRoles{"system",    "developer", "user",
                                                 "assistant", "tool",      "function"};

/// One content part: text under any of its type names; other kinds are refused with a sentence.
Result<Json> read_part(const Json& part, const std::string& path) {
  if (part.is_string()) return Json{{"type", "text"}, {"text", part}};
  if (!part.is_object()) return wrong(path, fmt::format("must be an object, found {}", kind_of(part)));
  const Fields fields(part, path);
  FT_ASSIGN(const auto type, fields.text("type"));
  if (!type) return wrong(path + ".type", "is missing; text parts are {\"type\": \"text\", \"text\": ...}");
  if (*type == "text" || *type == "input_text" || *type == "output_text" || *type == "refusal") {
    const char* name = *type == "refusal" ? "refusal" : "text";
    FT_ASSIGN(const auto text, fields.text(name));
    if (!text) return wrong(fmt::format("{}.{}", path, name), "is missing");
    return Json{{"type", "text"}, {"text", *text}};
  }
  if (*type == "image_url" || *type == "input_image") return read_openai_image(part, path);
  for (const std::string_view media : {"image", "audio", "video", "file"}) {
    if (type->find(media) == std::string::npos) continue;
    return Error{
        Code::kUnsupported,
        fmt::format("{}: this server reads text and images; send the content without the {}", path, media),
        path};
  }
  return wrong(path + ".type", fmt::format("unknown content type \"{}\"; use text or image_url", *type));
}

}  // namespace

Result<Json> read_content(const Json& content, const std::string& path) {
  if (content.is_null()) return Json("");
  if (content.is_string()) return content;
  if (!content.is_array()) {
    return wrong(path, fmt::format("must be a string or a list of parts, found {}", kind_of(content)));
  }
  Json parts = Json::array();
  for (std::size_t i = 0; i < content.size(); ++i) {
    FT_ASSIGN(Json part, read_part(content[i], fmt::format("{}[{}]", path, i)));
    parts.push_back(std::move(part));
  }
  return parts;
}

namespace {

/// A call of a function, or of a custom tool, which becomes a function of one text.
Result<Json> read_call(const Json& call, const std::string& path) {
  if (!call.is_object()) return wrong(path, fmt::format("must be an object, found {}", kind_of(call)));
  const Fields outer(call, path);
  FT_ASSIGN(const Json* custom, outer.object("custom"));
  FT_ASSIGN(const Json* function, outer.object("function"));
  if (custom == nullptr && function == nullptr) return wrong(path + ".function", "is missing");
  const Fields fields(custom != nullptr ? *custom : *function,
                      outer.at(custom != nullptr ? "custom" : "function"));
  FT_ASSIGN(const auto name, fields.text("name"));
  if (!name) return wrong(fields.at("name"), "is missing");
  Json arguments;
  if (custom != nullptr) {
    FT_ASSIGN(const auto input, fields.text("input"));
    arguments = Json{{"input", input.value_or("")}};
  } else {
    FT_ASSIGN(arguments, read_arguments(fields.find("arguments"), fields.at("arguments")));
  }
  Json result{{"type", "function"}, {"function", {{"name", *name}, {"arguments", std::move(arguments)}}}};
  if (const Json* id = outer.find("id"); id != nullptr && id->is_string()) result["id"] = *id;
  return result;
}

Status add_calls(const Fields& fields, Json& message) {
  FT_ASSIGN(const Json* legacy, fields.object("function_call"));
  if (legacy != nullptr) {
    FT_ASSIGN(Json call, read_call(Json{{"function", *legacy}}, fields.at("function_call")));
    message["tool_calls"] = Json::array({std::move(call)});
    return {};
  }
  FT_ASSIGN(const Json* calls, fields.array("tool_calls", kMaxTools));
  if (calls == nullptr || calls->empty()) return {};
  message["tool_calls"] = Json::array();
  for (std::size_t i = 0; i < calls->size(); ++i) {
    FT_ASSIGN(Json call, read_call((*calls)[i], fmt::format("{}[{}]", fields.at("tool_calls"), i)));
    message["tool_calls"].push_back(std::move(call));
  }
  return {};
}

}  // namespace

namespace {

/// The content of a tool's result: a text, parts, or any other JSON, which the model reads as it is written.
/// Parts of text and media keep their kind, since media that cannot be read are refused.
Json result_content(const Json& content) {
  if (content.is_null() || content.is_string()) return content;
  const auto readable = [](const Json& part) {
    if (part.is_string()) return true;
    const Json type = part.is_object() ? part.value("type", Json()) : Json();
    const auto has = [&](std::string_view word) {
      return type.is_string() && type.get_ref<const std::string&>().find(word) != std::string::npos;
    };
    return has("text") || has("image") || has("audio") || has("video") || has("file");
  };
  if (!content.is_array()) return dump(content);
  Json parts = Json::array();
  for (const Json& part : content) parts.push_back(readable(part) ? part : Json(dump(part)));
  return parts;
}

/// Takes reasoning and calls out of an assistant's parts, which agents keep there in the form of other
/// services; calls are in tool_calls too.
Json answer_content(const Json& content, std::string& reasoning) {
  constexpr std::array<std::string_view, 6> kLeftOut{"tool_use",          "tool_call",     "tool-call",
                                                     "redacted_thinking", "function_call", "server_tool_use"};
  if (!content.is_array()) return content;
  Json parts = Json::array();
  for (const Json& part : content) {
    const Json type = part.is_object() ? part.value("type", Json()) : Json();
    const std::string name = type.is_string() ? type.get<std::string>() : std::string();
    if (name == "thinking" || name == "reasoning") {
      for (const char* member : {"thinking", "reasoning", "text"}) {
        const Json text = part.value(member, Json());
        if (text.is_string()) reasoning += text.get<std::string>();
      }
    } else if (std::ranges::find(kLeftOut, name) == kLeftOut.end()) {
      parts.push_back(part);
    }
  }
  return parts.empty() ? Json("") : parts;
}

}  // namespace

Result<Json> read_message(const Json& given, const std::string& path) {
  if (!given.is_object()) return wrong(path, fmt::format("must be an object, found {}", kind_of(given)));
  const Fields fields(given, path);
  FT_ASSIGN(const auto role, fields.text("role"));
  if (!role) return wrong(fields.at("role"), "is missing; each message has a role and a content");
  if (std::find(kRoles.begin(), kRoles.end(), *role) == kRoles.end()) {
    return wrong(fields.at("role"),
                 fmt::format("must be one of {}, found \"{}\"", fmt::join(kRoles, ", "), *role));
  }
  Json message{{"role", *role == "function" ? "tool" : *role}};
  const Json* content = fields.find("content");
  // An assistant that only calls tools has no content, and neither has a tool that returns nothing.
  const bool may_lack = *role == "assistant" || message["role"] == "tool";
  if (content == nullptr && !may_lack) return wrong(fields.at("content"), "is missing");
  std::string reasoning;  // among the parts
  Json taken = content != nullptr ? *content : Json();
  if (message["role"] == "tool") taken = result_content(taken);
  if (*role == "assistant") taken = answer_content(taken, reasoning);
  FT_ASSIGN(message["content"], read_content(taken, fields.at("content")));
  if (!reasoning.empty()) message["reasoning_content"] = reasoning;
  if (*role == "assistant") {
    for (const char* name : {"reasoning_content", "reasoning", "thinking"}) {
      const Json* whole = fields.find(name);
      if (whole == nullptr || !whole->is_string() || message.contains("reasoning_content")) continue;
      message["reasoning_content"] = *whole;
    }
    FT_TRY(add_calls(fields, message));
  }
  for (const char* name : {"tool_call_id", "name"}) {
    FT_ASSIGN(const auto text, fields.text(name));
    if (text) message[name] = *text;
  }
  return message;
}

Result<Json> read_messages(const Json& list, const std::string& path) {
  Json messages = Json::array();
  for (std::size_t i = 0; i < list.size(); ++i) {
    FT_ASSIGN(Json message, read_message(list[i], fmt::format("{}[{}]", path, i)));
    messages.push_back(std::move(message));
  }
  return messages;
}

Status read_response_format(const Json& format, const std::string& path, GenerateParams& call) {
  const Fields fields(format, path);
  FT_ASSIGN(const auto type, fields.word("type", {"text", "json_object", "json_schema"}));
  if (!type) return wrong(fields.at("type"), "is missing; use text, json_object or json_schema");
  if (*type == "json_object" && fields.find("schema") == nullptr) call.format = Format::kJsonObject;
  // With a schema json_object is another name of json_schema (llama.cpp, Together, Fireworks).
  if (*type == "text" || call.format == Format::kJsonObject) return {};
  FT_ASSIGN(const Json* nested, fields.object("json_schema"));
  const Fields inner(nested != nullptr ? *nested : format,
                     nested != nullptr ? fields.at("json_schema") : path);
  FT_ASSIGN(const Json* schema, inner.object("schema"));
  if (schema == nullptr) return wrong(inner.at("schema"), "is missing");
  FT_ASSIGN(const auto strict, inner.boolean("strict"));
  Json regular = *schema;
  make_schema_regular(regular);
  call.format = Format::kJsonSchema, call.schema = dump(regular), call.schema_field = inner.at("schema");
  call.strict_schema = strict.value_or(false);
  return {};
}

namespace {

Status read_prediction(const Fields& fields, GenerateParams& call) {
  FT_ASSIGN(const Json* prediction, fields.object("prediction"));
  if (prediction == nullptr) return {};
  const Fields inner(*prediction, "prediction");
  const Json* content = inner.find("content");
  if (content == nullptr) return wrong("prediction.content", "is missing");
  FT_ASSIGN(const Json parts, read_content(*content, "prediction.content"));
  if (parts.is_string()) call.predicted = parts.get<std::string>();
  if (!parts.is_array()) return {};
  for (const Json& part : parts) {
    if (!part.contains("text")) return wrong("prediction.content", "must be text");
    call.predicted += part["text"].get<std::string>();
  }
  return {};
}

/// -1, as clients of LM Studio and llama.cpp send it, means unlimited, which is 0 here.
Result<std::optional<std::int64_t>> read_max_tokens(const Fields& fields, const char* name) {
  const Json* given = fields.find(name);
  if (given != nullptr && *given == -1) return std::optional<std::int64_t>(0);
  FT_ASSIGN(const auto most, fields.integer(name, 1, 1 << 30));
  return most ? std::optional<std::int64_t>(*most) : std::nullopt;
}

Status read_lengths(const Fields& fields, GenerateParams& call) {
  FT_ASSIGN(const auto older, read_max_tokens(fields, "max_tokens"));
  FT_ASSIGN(const auto newer, read_max_tokens(fields, "max_completion_tokens"));
  call.max_tokens = newer ? *newer : older.value_or(0);
  FT_ASSIGN(const auto logprobs, fields.boolean("logprobs"));
  FT_ASSIGN(const auto top, fields.integer("top_logprobs", 0, kMaxTopLogprobsAsked));
  if (top && *top > 0 && !logprobs.value_or(false)) {
    return wrong("top_logprobs", "needs logprobs: true");
  }
  if (logprobs.value_or(false)) call.logprobs = static_cast<int>(top.value_or(0));
  return {};
}

/// tools with tool_choice, or their older names: functions with function_call.
Status read_offered(const Json& body, GenerateParams& call) {
  const Fields fields(body, "");
  FT_ASSIGN(const Json* given, fields.array("tools", kMaxTools));
  FT_ASSIGN(const Json* older, fields.array("functions", kMaxTools));
  call.legacy_functions = (given == nullptr || given->empty()) && older != nullptr && !older->empty();
  Json tools = Json::array();
  if (call.legacy_functions) {
    FT_ASSIGN(tools, read_tools(*older, "functions", call));
  } else if (given != nullptr) {
    FT_ASSIGN(tools, read_tools(*given, "tools", call));
  }
  if (!call.legacy_functions) return read_tool_choice(fields, tools, call);
  call.parallel_tools = false;  // function_call holds one call
  const Json* choice = fields.find("function_call");
  if (choice == nullptr) return {};
  const Json renamed{{"tool_choice", *choice}, {"parallel_tool_calls", false}};
  return read_tool_choice(Fields(renamed, ""), tools, call);
}

}  // namespace

Result<GenerateParams> read_chat(const Json& body) {
  GenerateParams call;
  const Fields fields(body, "");
  FT_ASSIGN(const auto model, fields.text("model"));
  call.model = model.value_or("");
  FT_ASSIGN(const Json* list, fields.array("messages", kMaxMessages));
  if (list == nullptr || list->empty()) {
    return wrong("messages", "is missing; send a list of at least one message");
  }
  FT_ASSIGN(const Json messages, read_messages(*list, "messages"));
  call.messages = dump(messages);
  FT_TRY(read_offered(body, call));
  FT_ASSIGN(const Json* format, fields.object("response_format"));
  if (format != nullptr) FT_TRY(read_response_format(*format, "response_format", call));
  FT_TRY(read_sampling(fields, call));
  FT_TRY(read_speculation(fields, call));
  FT_TRY(read_effort(fields, "reasoning_effort", call));
  FT_TRY(read_template_fields(fields, call));
  FT_TRY(read_prediction(fields, call));
  FT_TRY(read_lengths(fields, call));
  return call;
}

}  // namespace ft::api
