#include "text/chat_template.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "base/heavy_work.h"
#include "base/json.h"
#include "text/chat_format/granite.h"
#include "text/chat_format/harmony.h"
#include "text/chat_format/harmony_messages.h"
#include "text/chat_format/mistral.h"
#include "text/chat_format/mistral_messages.h"
#include "text/ffi.h"
#include "text/json_text.h"

namespace ft {

namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxConfigFileBytes = size_t{64} << 20;

Result<Json> parse_json(std::string_view text, const std::string& what) {
  if (json_depth(text) > kMaxJsonDepth) {
    return Error{Code::kInvalid,
                 what + " are nested deeper than " + std::to_string(kMaxJsonDepth) + " levels; flatten them"};
  }
  Json json = read_json<Json>(text);
  if (json.is_discarded() || text.find('\0') != std::string_view::npos) {
    return Error{Code::kInvalid,
                 what + " are not valid JSON (or hold bytes that are not UTF-8); check the encoder"};
  }
  return json;
}

/// Arguments arrive as the API's string; templates iterate over an object.
void parse_arguments(Json& message) {
  const auto calls = message.find("tool_calls");
  if (calls == message.end() || !calls->is_array()) {
    return;
  }
  for (Json& call : *calls) {
    Json& function = call.is_object() && call.contains("function") ? call["function"] : call;
    if (!function.is_object() || !function.contains("arguments") || !function["arguments"].is_string()) {
      continue;
    }
    auto parsed = parse_json(function["arguments"].get_ref<const std::string&>(), "arguments");
    if (parsed.ok() && parsed->is_object()) {
      function["arguments"] = std::move(*parsed);
    }
  }
}

/// The text of a system message, given as a text or a list of text parts; nullopt for other content.
std::optional<std::string> system_text(const Json& message) {
  if (!message.is_object() || message.value("role", Json()) != "system" || !message.contains("content")) {
    return std::nullopt;
  }
  const Json& content = message["content"];
  if (content.is_string()) {
    return content.get<std::string>();
  }
  if (!content.is_array()) {
    return std::nullopt;
  }
  std::string text;
  for (const Json& part : content) {
    if (!part.is_object() || !part.contains("text") || !part["text"].is_string()) {
      return std::nullopt;
    }
    text += part["text"].get_ref<const std::string&>();
  }
  return text;
}

/// Normalises messages that APIs accept and templates refuse.
Json prepared(Json messages) {
  for (Json& message : messages) {
    if (!message.is_object()) {
      continue;
    }
    if (message.value("role", Json()) == "developer") {
      message["role"] = "system";
    }
    if (message.contains("content") && message["content"].is_null()) {
      message["content"] = "";
    }
    parse_arguments(message);
  }
  std::string merged;
  size_t leading = 0;
  for (; leading < messages.size(); ++leading) {
    const std::optional<std::string> text = system_text(messages[leading]);
    if (!text) {
      break;
    }
    merged += (leading > 0 ? "\n\n" : "") + *text;
  }
  if (leading > 1) {
    messages[0]["content"] = std::move(merged);
    messages.erase(messages.begin() + 1, messages.begin() + static_cast<std::ptrdiff_t>(leading));
  }
  return messages;
}

/// A template in a configuration: a string, or a list of {name, template}.
struct Sources {
  std::string usual;
  std::string tool_use;
};

Result<Sources> sources_of(const Json& config, const std::string& path) {
  const auto found = config.find("chat_template");
  if (found != config.end() && found->is_string()) {
    return Sources{found->get<std::string>(), ""};
  }
  Sources sources;
  if (found != config.end() && found->is_array()) {
    for (const Json& named : *found) {
      if (!named.is_object() || !named.value("name", Json()).is_string() ||
          !named.value("template", Json()).is_string()) {
        return Error{Code::kCorrupt, path + ": chat_template must be a string or a list of {name, template}"};
      }
      if (named["name"] == "default") {
        sources.usual = named["template"].get<std::string>();
      } else if (named["name"] == "tool_use") {
        sources.tool_use = named["template"].get<std::string>();
      }
    }
  }
  if (sources.usual.empty()) {
    return Error{
        found == config.end() ? Code::kNotFound : Code::kCorrupt,
        path +
            " has no usable chat_template; this model can complete text but not chat; to chat, add a "
            "chat_template.jinja to its folder"};
  }
  return sources;
}

Result<Json> read_config(const std::string& path) {
  FT_ASSIGN(const std::string text, read_model_text(path, kMaxConfigFileBytes));
  FT_ASSIGN(Json json, parse_json(text, path + ": its contents"));
  if (!json.is_object()) {
    return Error{Code::kCorrupt, path + " is not a JSON object; fetch the model again"};
  }
  return json;
}

Result<Sources> find_sources(const std::string& dir, const Json& tokenizer_config) {
  const std::string jinja = dir + "/chat_template.jinja";
  std::error_code ignored;
  if (std::filesystem::exists(jinja, ignored)) {
    FT_ASSIGN(std::string source, read_model_text(jinja, kMaxConfigFileBytes));
    return Sources{std::move(source), ""};
  }
  const std::string json = dir + "/chat_template.json";
  if (std::filesystem::exists(json, ignored)) {
    FT_ASSIGN(const Json config, read_config(json));
    return sources_of(config, json);
  }
  return sources_of(tokenizer_config, dir + "/tokenizer_config.json");
}

/// bos_token and the other special tokens: strings, or objects with the string as "content".
Json special_tokens(const Json& config) {
  Json tokens = Json::object();
  for (const char* name :
       {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"}) {
    const Json value = config.value(name, Json());
    const Json content = value.is_object() ? value.value("content", Json()) : value;
    if (content.is_string()) {
      tokens[name] = content;
    }
  }
  return tokens;
}

using Preparation = void (*)(Json& context);

/// The changes that a template needs beyond prepared(); null: none.
Preparation preparation_of(std::string_view source) {
  if (is_harmony_template(source)) return prepare_harmony;
  if (is_granite_template(source))
    return source.find("tool_calls") == std::string_view::npos ? prepare_granite_calls : prepare_granite;
  return is_mistral_list_template(source) ? prepare_mistral : nullptr;
}

/// The variables of one rendering, as JSON text.
Result<std::string> context_of(std::string_view messages_json, std::string_view tools_json,
                               const RenderOptions& options, const std::string& special_tokens_json,
                               Preparation prepare) {
  if (messages_json.size() + tools_json.size() + options.extra_json.size() > kMaxMessagesBytes) {
    return Error{Code::kTooLong, "the messages and tools have more than " +
                                     std::to_string(kMaxMessagesBytes) + " bytes; shorten the conversation"};
  }
  FT_ASSIGN(Json messages, parse_json(messages_json, "messages"));
  if (!messages.is_array()) {
    return Error{Code::kInvalid, "messages must be a JSON array of {role, content}"};
  }
  Json context = read_json<Json>(special_tokens_json);
  context["messages"] = prepared(std::move(messages));
  context["tools"] = nullptr;
  context["documents"] = nullptr;
  if (!tools_json.empty()) {
    FT_ASSIGN(Json tools, parse_json(tools_json, "tools"));
    if (!tools.is_array() && !tools.is_null()) {
      return Error{Code::kInvalid, "tools must be a JSON array of {type, function}"};
    }
    context["tools"] = std::move(tools);
  }
  context["add_generation_prompt"] = options.add_generation_prompt;
  if (options.enable_thinking) {
    context["enable_thinking"] = *options.enable_thinking;
  }
  if (!options.extra_json.empty()) {
    FT_ASSIGN(const Json extra, parse_json(options.extra_json, "extra template variables"));
    if (!extra.is_object()) {
      return Error{Code::kInvalid, "extra template variables (chat_template_kwargs) must be a JSON object"};
    }
    context.update(extra);
  }
  if (prepare != nullptr) prepare(context);
  return write_json(context);
}

ft_text_limits raw_of(const TemplateLimits& limits) {
  return {limits.fuel, limits.recursion_depth, limits.template_bytes, limits.output_bytes,
          limits.work, limits.memory_bytes};
}

/// The limits of a rendering that is not heavy work, with `size` bytes of variables.
TemplateLimits brief(TemplateLimits limits, size_t size) {
  constexpr uint64_t kFuelPerByte = 8;
  limits.fuel = std::min(limits.fuel, kBriefRendering.fuel + kFuelPerByte * size);
  limits.work = std::min(limits.work, kBriefRendering.work);
  limits.memory_bytes = std::min(limits.memory_bytes, kBriefRendering.memory_bytes);
  return limits;
}

}  // namespace

void ChatTemplate::Deleter::operator()(ft_text_template* handle) const { ft_text_template_free(handle); }

Result<ChatTemplate> ChatTemplate::load(const std::string& model_dir, const TemplateLimits& limits) {
  Json config = Json::object();
  const std::string path = model_dir + "/tokenizer_config.json";
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored)) {
    FT_ASSIGN(config, read_config(path));
  }
  FT_ASSIGN(const Sources sources, find_sources(model_dir, config));
  return of_sources(sources.usual, sources.tool_use, write_json(special_tokens(config)), limits);
}

Result<ChatTemplate> ChatTemplate::parse(std::string_view tokenizer_config, std::string_view jinja,
                                         const std::string& name, const TemplateLimits& limits) {
  Json config = Json::object();
  if (!tokenizer_config.empty()) {
    FT_ASSIGN(config, parse_json(tokenizer_config, name + ": its tokenizer_config.json"));
    if (!config.is_object())
      return Error{Code::kCorrupt, name + ": its tokenizer_config.json is not a JSON object; fetch it again"};
  }
  Sources sources{std::string(jinja), ""};
  if (jinja.empty()) {
    FT_ASSIGN(sources, sources_of(config, name));
  }
  return of_sources(sources.usual, sources.tool_use, write_json(special_tokens(config)), limits);
}

Result<ChatTemplate> ChatTemplate::of_sources(std::string_view usual, std::string_view tool_use,
                                              std::string_view special_tokens_json,
                                              const TemplateLimits& limits) {
  FT_ASSIGN(ChatTemplate loaded, from_source(usual, special_tokens_json, limits));
  if (!tool_use.empty()) {
    FT_ASSIGN(loaded.tool_use_, compile(tool_use, limits));
  }
  return loaded;
}

Result<ChatTemplate> ChatTemplate::from_source(std::string_view source, std::string_view special_tokens_json,
                                               const TemplateLimits& limits) {
  ChatTemplate loaded(limits);
  loaded.special_tokens_json_ = special_tokens_json.empty() ? "{}" : std::string(special_tokens_json);
  FT_ASSIGN(const Json tokens, parse_json(loaded.special_tokens_json_, "special tokens"));
  if (!tokens.is_object()) {
    return Error{Code::kInvalid, "special tokens must be a JSON object of strings"};
  }
  FT_ASSIGN(loaded.default_, compile(source, limits));
  loaded.source_ = source;
  return loaded;
}

Result<ChatTemplate::Handle> ChatTemplate::compile(std::string_view source, const TemplateLimits& limits) {
  const ft_text_limits raw = raw_of(limits);
  ft_text_template* handle = nullptr;
  FfiBytes message;
  if (const auto code = ft_text_template_new(ffi_data(source), source.size(), &raw, &handle, &message.raw);
      code != FT_TEXT_OK) {
    Error error = ffi_error(code, message, "the chat template cannot be used: ");
    error.message += "; correct the model's template or give another";
    return error;
  }
  return Handle(handle);
}

Result<std::string> ChatTemplate::render(std::string_view messages_json, std::string_view tools_json,
                                         const RenderOptions& options) const {
  FT_ASSIGN(const std::string context,
            context_of(messages_json, tools_json, options, special_tokens_json_, preparation_of(source_)));
  const ft_text_template* chosen = !tools_json.empty() && tool_use_ ? tool_use_.get() : default_.get();
  const bool heavy_elsewhere = is_elsewhere(HeavyWork::kRender);
  const ft_text_limits limits = raw_of(heavy_elsewhere ? brief(limits_, context.size()) : limits_);
  FfiBytes text;
  FfiBytes message;
  if (const auto code = ft_text_template_render(chosen, ffi_data(context), context.size(), options.now_s,
                                                &limits, &text.raw, &message.raw);
      code != FT_TEXT_OK) {
    if (code == FT_TEXT_LIMIT) begin_heavy_work(HeavyWork::kRender);
    return ffi_error(code, message, "the chat template refused: ");
  }
  return std::string(text.view());
}

}  // namespace ft
