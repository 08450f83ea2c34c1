// Shared by the grammar tests: the shipped model's vocabulary, and masks as lists. For tests only; a failure
// fails the test.
#pragma once

#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <gtest/gtest.h>
#include <random>
#include <span>
#include <string>
#include <unistd.h>
#include <vector>

#include "text/chat_format/qwen3_5.h"
#include "text/grammar.h"
#include "text/tool_grammar.h"

namespace ft::grammar_fixture {

inline constexpr const char* kModel = "assets/qwen3.5-tiny";

inline const Tokenizer& tokenizer() {
  static const Tokenizer kTokenizer = std::move(Tokenizer::load(kModel)).value();
  return kTokenizer;
}

inline std::vector<int32_t> end_tokens() {
  return {*tokenizer().id_of("<|im_end|>"), *tokenizer().id_of("<|endoftext|>")};
}

/// The same vocabulary with more tokens for tags.
inline Tokenizer tokenizer_with(std::span<const char* const> tags) {
  namespace fs = std::filesystem;
  const fs::path from = kModel,
                 to = fs::temp_directory_path() / fmt::format("tags_{}_{}", getpid(), tags.size());
  fs::create_directories(to);
  fs::copy_file(from / "tokenizer_config.json", to / "tokenizer_config.json",
                fs::copy_options::overwrite_existing);
  std::ifstream file(from / "tokenizer.json");
  std::string json((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>()), added;
  int id = tokenizer().vocab_size();
  for (const char* tag : tags) {
    if (tokenizer().id_of(tag)) continue;
    added += fmt::format(R"(,{{"id":{},"content":"{}","single_word":false,"lstrip":false,"rstrip":false,)"
                         R"("normalized":false,"special":false}})",
                         id++, tag);
  }
  json.insert(json.find(']', json.find("\"added_tokens\"")), added);
  std::ofstream(to / "tokenizer.json") << json;
  Tokenizer loaded = std::move(Tokenizer::load(to.string())).value();
  fs::remove_all(to);
  return loaded;
}

/// The tokens of `text`, with the tag at place `which` among its tags spelled character by character.
inline std::vector<int32_t> spelled(const Tokenizer& own, std::span<const char* const> tags,
                                    const std::string& text, size_t which) {
  std::vector<int32_t> ids;
  size_t seen = 0;
  const std::vector<int32_t> written = *own.encode(text, false);  // the loop would not keep the result alive
  for (const int32_t id : written) {
    const std::string tag(own.token_bytes(id));
    bool is_tag = false;
    for (const char* one : tags) is_tag = is_tag || tag == one;
    if (!is_tag || seen++ != which) {
      ids.push_back(id);
      continue;
    }
    for (const char c : tag) ids.push_back(own.encode(std::string(1, c), false)->front());
  }
  return ids;
}

inline const GrammarCompiler& compiler() {
  static const GrammarCompiler kCompiler(tokenizer(), end_tokens());
  return kCompiler;
}

inline std::vector<int32_t> ids_of(std::string_view text) {
  return std::move(tokenizer().encode(text, false)).value();
}

inline std::vector<uint32_t> mask_of(GrammarMatcher& matcher) {
  // One more word than the vocabulary needs: a model may have more logits than its tokenizer has ids.
  std::vector<uint32_t> words(static_cast<size_t>(tokenizer().vocab_size()) / 32 + 2, ~0U);
  const Status status = matcher.mask(words);
  EXPECT_TRUE(status.ok()) << status.error().message;
  return words;
}

inline bool allows(const std::vector<uint32_t>& mask, int32_t id) {
  return ((mask[static_cast<size_t>(id) / 32] >> (id % 32)) & 1U) != 0;
}

inline std::vector<int32_t> allowed_ids(const std::vector<uint32_t>& mask) {
  std::vector<int32_t> ids;
  for (int32_t id = 0; id < static_cast<int32_t>(mask.size()) * 32; ++id) {
    if (allows(mask, id)) ids.push_back(id);
  }
  return ids;
}

/// True if the tokens of `text` are allowed in sequence, followed by the end.
inline bool accepts(const Grammar& grammar, std::string_view text) {
  GrammarMatcher matcher = std::move(grammar.start()).value();
  for (const int32_t id : ids_of(text)) {
    if (!allows(mask_of(matcher), id)) return false;
    EXPECT_TRUE(matcher.consume({&id, 1}).ok());
  }
  return allows(mask_of(matcher), end_tokens()[0]);
}

inline std::shared_ptr<const Grammar> schema(std::string_view text) {
  GrammarCompiler::Compiled grammar = compiler().json_schema(text);
  EXPECT_TRUE(grammar.ok()) << grammar.error().message;
  return grammar.ok() ? *grammar : nullptr;
}

inline ToolCallRules qwen_rules() {
  ToolCallRules rules;
  rules.format = &kQwen35Format;
  return rules;
}

inline std::shared_ptr<const Grammar> tools(const ToolCallRules& rules) {
  GrammarCompiler::Compiled grammar = compiler().tool_calls(rules);
  EXPECT_TRUE(grammar.ok()) << grammar.error().message << "\n" << *tool_call_lark(rules, tokenizer());
  return grammar.ok() ? *grammar : nullptr;
}

/// Samples allowed tokens, with a bias for those that end something, until the end or up to `most` tokens.
inline std::string draw(const Grammar& grammar, uint64_t seed, size_t most) {
  std::mt19937_64 random(seed);
  GrammarMatcher matcher = std::move(grammar.start()).value();
  std::string text;
  for (size_t i = 0; i < most; ++i) {
    const std::vector<int32_t> ids = allowed_ids(mask_of(matcher));
    EXPECT_FALSE(ids.empty());
    const int32_t id = ids[random() % ids.size()];
    if (tokenizer().is_special(id)) return text;
    EXPECT_TRUE(matcher.consume({&id, 1}).ok());
    text += tokenizer().token_bytes(id);
  }
  return text;
}

inline std::string refusal(const GrammarCompiler::Compiled& compiled) {
  EXPECT_FALSE(compiled.ok());
  return compiled.ok() ? "" : compiled.error().message;
}

inline constexpr const char* kTools =
    R"([{"type": "function", "function": {"name": "get_weather", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"},
    "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]}}, "required": ["city", "days"]}}},
    {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}}])";

}  // namespace ft::grammar_fixture
