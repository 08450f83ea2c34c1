#include "text/end_token.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "text/ffi.h"

namespace ft {

namespace {

constexpr size_t kMaxTokenFileBytes = size_t{64} << 20;

/// A string, or an object with the string as "content".
std::string eos_of(std::string_view text) {
  const auto config = read_json<nlohmann::json>(text);
  if (!config.is_object() || !config.contains("eos_token")) return {};
  const nlohmann::json& named = config["eos_token"];
  const nlohmann::json& content = named.is_object() && named.contains("content") ? named["content"] : named;
  return content.is_string() ? content.get<std::string>() : std::string();
}

std::string eos_in(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return {};
  const Result<std::string> text = read_model_text(path, kMaxTokenFileBytes);
  return text.ok() ? eos_of(*text) : std::string();
}

}  // namespace

std::optional<std::int32_t> end_token_in(std::string_view tokenizer_config, const Tokenizer& tokenizer) {
  const std::string token = eos_of(tokenizer_config);
  return token.empty() ? std::nullopt : tokenizer.id_of(token);
}

std::vector<std::int32_t> turn_ends_in(std::string_view chat_template, const Tokenizer& tokenizer) {
  constexpr std::string_view kKnown[] = {"<|im_end|>", "<end_of_turn>", "<turn|>", "<|eot_id|>",
                                         "<|eom_id|>"};
  std::vector<std::int32_t> ends;
  for (const std::string_view name : kKnown) {
    if (chat_template.find(name) == std::string_view::npos) continue;
    const std::optional<std::int32_t> id = tokenizer.id_of(name);
    if (id && tokenizer.is_added(*id)) ends.push_back(*id);
  }
  return ends;
}

std::optional<std::int32_t> end_token_of(const std::string& model_dir, const Tokenizer& tokenizer) {
  for (const char* name : {"/tokenizer_config.json", "/special_tokens_map.json"}) {
    if (const std::string token = eos_in(model_dir + name); !token.empty()) return tokenizer.id_of(token);
  }
  return std::nullopt;
}

}  // namespace ft
