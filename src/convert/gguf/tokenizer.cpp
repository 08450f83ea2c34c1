#include "convert/gguf/tokenizer.h"

#include <nlohmann/json.hpp>

#include "base/json.h"

namespace ft::convert {
namespace {

using nlohmann::json;
using Texts = std::vector<std::string>;

// ggml's kinds of tokens.
constexpr std::int64_t kControl = 3, kUserDefined = 4;

constexpr const char* kContractions = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";
constexpr const char* kSpaces = R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";

/// The expression that splits text into words; empty for an unknown name.
std::string word_pattern(const std::string& name) {
  if (name == "qwen2") {
    return std::string(kContractions) + R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)" +
           kSpaces;
  }
  if (name == "qwen35") {
    return std::string(kContractions) +
           R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*)" + kSpaces;
  }
  return {};
}

template <class List>
const List* list_of(const GgufFile& file, const char* key) {
  const GgufValue* value = file.find(key);
  return value == nullptr ? nullptr : std::get_if<List>(value);
}

json byte_level(bool trims) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", trims}, {"use_regex", false}};
}

json added_token(std::int64_t id, const std::string& text, bool special) {
  return {{"id", id},        {"content", text},     {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", special}};
}

}  // namespace

std::map<std::string, std::string> tokenizer_files(const GgufFile& file) {
  const auto* tokens = list_of<Texts>(file, "tokenizer.ggml.tokens");
  const auto* merges = list_of<Texts>(file, "tokenizer.ggml.merges");
  const auto* kinds = list_of<std::vector<std::int64_t>>(file, "tokenizer.ggml.token_type");
  const std::string pattern = word_pattern(file.text("tokenizer.ggml.pre", ""));
  if (tokens == nullptr || merges == nullptr || kinds == nullptr || pattern.empty() ||
      kinds->size() != tokens->size() || file.text("tokenizer.ggml.model", "") != "gpt2") {
    return {};
  }
  json vocabulary = json::object(), added = json::array();
  for (std::size_t id = 0; id < tokens->size(); ++id) {
    const bool special = (*kinds)[id] == kControl;
    if (special || (*kinds)[id] == kUserDefined) {
      added.push_back(added_token(static_cast<std::int64_t>(id), (*tokens)[id], special));
    } else {
      vocabulary[(*tokens)[id]] = id;
    }
  }
  const json split = {
      {"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}};
  const json whole = {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", std::move(added)},
      {"normalizer", {{"type", "NFC"}}},
      {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", {split, byte_level(false)}}}},
      {"post_processor", byte_level(false)},
      {"decoder", byte_level(false)},
      {"model",
       {{"type", "BPE"},
        {"dropout", nullptr},
        {"unk_token", nullptr},
        {"fuse_unk", false},
        {"byte_fallback", false},
        {"ignore_merges", false},
        {"vocab", std::move(vocabulary)},
        {"merges", *merges}}}};
  std::map<std::string, std::string> files;
  files["tokenizer.json"] = write_json(whole) + "\n";
  json settings = {{"tokenizer_class", "Qwen2TokenizerFast"}, {"add_bos_token", false}};
  const std::int64_t eos = file.whole("tokenizer.ggml.eos_token_id", -1);
  if (eos >= 0 && eos < static_cast<std::int64_t>(tokens->size()))
    settings["eos_token"] = (*tokens)[static_cast<std::size_t>(eos)];
  files["tokenizer_config.json"] = write_json(settings, 2) + "\n";
  if (const std::string chat = file.text("tokenizer.chat_template", ""); !chat.empty())
    files["chat_template.jinja"] = chat;
  return files;
}

}  // namespace ft::convert
