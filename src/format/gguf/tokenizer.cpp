#include "format/gguf/tokenizer.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_set>

#include "base/json.h"
#include "format/gguf/sentence_pieces.h"
#include "format/tensor.h"

namespace ft::format {
namespace {

using nlohmann::json;
using Texts = std::vector<std::string>;

// ggml's kinds of tokens.
constexpr std::int64_t kControl = 3, kUserDefined = 4;

/// How a tokenizer splits text into words.
enum class Words { kLlama3, kQwen2, kQwen35, kTekken, kGpt4o, kGpt2, kSpaces, kPieces };

/// Source of the names: llama.cpp (src/llama-vocab.cpp); of the expressions: tokenizer.json of the models.
struct Splitting {
  std::string_view name;
  Words words;
  bool digits = false;          // each is split off first
  bool composed = false;        // text is brought to NFC first
  bool ignores_merges = false;  // a word that is a token is taken whole
  bool adds_bos = false;        // unless the file says otherwise
};
constexpr std::array<Splitting, 16> kSplittings = {{
    {"llama-bpe", Words::kLlama3, false, false, true, true},
    {"llama3", Words::kLlama3, false, false, true, true},
    {"llama-v3", Words::kLlama3, false, false, true, true},
    {"smaug-bpe", Words::kLlama3, false, false, true, false},
    {"glm4", Words::kLlama3},
    {"chatglm-bpe", Words::kLlama3},
    {"qwen2", Words::kQwen2, false, true},
    {"deepseek-r1-qwen", Words::kQwen2, false, true},
    {"qwen35", Words::kQwen35, false, true},
    {"tekken", Words::kTekken, false, false, true, true},
    {"gpt-4o", Words::kGpt4o},
    {"gpt-2", Words::kGpt2},
    {"smollm", Words::kGpt2, true},
    {"refact", Words::kGpt2, true},
    {"starcoder", Words::kGpt2, true},
    {"granite", Words::kGpt2, true},
}};

/// Gemma 4's tokenizer differs from the others: words end before a space, which is written as U+2581.
constexpr Splitting kOfGemma4 = {"", Words::kSpaces, false, false, false, true};

/// SentencePiece (Llama 2, Mistral 7B): a text is one word, and its spaces are written as U+2581.
constexpr Splitting kOfPieces = {"", Words::kPieces, false, false, false, true};

bool writes_spaces(const Splitting& splitting) {
  return splitting.words == Words::kSpaces || splitting.words == Words::kPieces;
}

/// The expression; empty: GPT-2's, which the library includes.
std::string pattern_of(Words words) {
  const std::string contractions = "(?i:'s|'t|'re|'ve|'m|'ll|'d)", spaces = R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
  const std::string lead = R"([^\r\n\p{L}\p{N}]?)", letters = lead + R"(\p{L}+)";
  const std::string signs = R"(| ?[^\s\p{L}\p{N}]+[\r\n]*)",
                    signs_or_slashes = R"(| ?[^\s\p{L}\p{N}]+[\r\n/]*)";
  const std::string upper = R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])", lower = R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])";
  switch (words) {
    case Words::kLlama3:
      return contractions + "|" + letters + R"(|\p{N}{1,3})" + signs + spaces;
    case Words::kQwen2:
      return contractions + "|" + letters + R"(|\p{N})" + signs + spaces;
    case Words::kQwen35:
      return contractions + R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*)" +
             spaces;
    case Words::kTekken:
      return lead + upper + "*" + lower + "+|" + lead + upper + "+" + lower + R"(*|\p{N})" +
             signs_or_slashes + spaces;
    case Words::kGpt4o:
      return lead + upper + "*" + lower + "+" + contractions + "?|" + lead + upper + "+" + lower + "*" +
             contractions + R"(?|\p{N}{1,3})" + signs_or_slashes + spaces;
    case Words::kGpt2:
    case Words::kSpaces:
    case Words::kPieces:
      return {};
  }
  return {};
}

// Texts of control tokens that end an answer in some family.
constexpr std::string_view kEnds[] = {"<|endoftext|>",   "<|im_end|>",    "<|eot_id|>",     "<|eom_id|>",
                                      "<|end_of_text|>", "<end_of_turn>", "<turn|>",        "<|return|>",
                                      "<|call|>",        "<|user|>",      "<|observation|>"};

template <class List>
const List* list_of(const GgufFile& file, const char* key) {
  const GgufValue* value = file.find(key);
  return value == nullptr ? nullptr : std::get_if<List>(value);
}

json byte_level(bool words) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", false}, {"use_regex", words}};
}

json split_at(const std::string& pattern) {
  return {{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}};
}

json added_token(std::int64_t id, const std::string& text, bool special) {
  return {{"id", id},        {"content", text},     {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", special}};
}

constexpr const char* kSpace = "\u2581";

json pre_tokenizer(const Splitting& splitting) {
  if (splitting.words == Words::kPieces) return {};
  if (splitting.words == Words::kSpaces) {
    return {{"type", "Split"},
            {"pattern", {{"String", " "}}},
            {"behavior", "MergedWithPrevious"},
            {"invert", false}};
  }
  const std::string pattern = pattern_of(splitting.words);
  json steps = json::array();
  if (splitting.digits) steps.push_back(split_at(R"(\p{N})"));
  if (!pattern.empty()) steps.push_back(split_at(pattern));
  steps.push_back(byte_level(pattern.empty()));
  return {{"type", "Sequence"}, {"pretokenizers", std::move(steps)}};
}

/// `prefixed`: a space is added before each text.
json normalizer(const Splitting& splitting, bool prefixed) {
  const json space = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kSpace}};
  if (prefixed)
    return {{"type", "Sequence"}, {"normalizers", {{{"type", "Prepend"}, {"prepend", kSpace}}, space}}};
  if (writes_spaces(splitting)) return space;
  return splitting.composed ? json{{"type", "NFC"}} : json();
}

json decoder(const Splitting& splitting, bool prefixed) {
  if (!writes_spaces(splitting)) return byte_level(false);
  const json space = {{"type", "Replace"}, {"pattern", {{"String", kSpace}}}, {"content", " "}};
  json steps = {space, {{"type", "ByteFallback"}}, {{"type", "Fuse"}}};
  if (prefixed) steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  return {{"type", "Sequence"}, {"decoders", std::move(steps)}};
}

/// The tokens that `add_special` puts before a text.
json post_processor(const std::optional<std::string>& bos, std::int64_t id, bool bytes) {
  if (!bos) return bytes ? byte_level(false) : json();
  const json special = {{"SpecialToken", {{"id", *bos}, {"type_id", 0}}}};
  const auto text = [](const char* which, int type) {
    return json{{"Sequence", {{"id", which}, {"type_id", type}}}};
  };
  const json with_bos = {{"type", "TemplateProcessing"},
                         {"single", {special, text("A", 0)}},
                         {"pair", {special, text("A", 0), special, text("B", 1)}},
                         {"special_tokens", {{*bos, {{"id", *bos}, {"ids", {id}}, {"tokens", {*bos}}}}}}};
  if (!bytes) return with_bos;
  return {{"type", "Sequence"}, {"processors", {byte_level(false), with_bos}}};
}

/// The parts of the metadata that a tokenizer is made of, checked against each other.
struct Vocabulary {
  const Texts* tokens = nullptr;
  const Texts* merges = nullptr;  // null: they follow from the scores
  const std::vector<double>* scores = nullptr;
  const std::vector<std::int64_t>* kinds = nullptr;
  const Splitting* splitting = nullptr;

  std::optional<std::string> named(const GgufFile& file, const char* key) const {
    const std::int64_t id = file.whole(key, -1);
    if (id < 0 || id >= std::ssize(*tokens)) return std::nullopt;
    return (*tokens)[static_cast<std::size_t>(id)];
  }
};

Result<Vocabulary> vocabulary_of(const GgufFile& file, const std::string& path) {
  Vocabulary found{list_of<Texts>(file, "tokenizer.ggml.tokens"),
                   list_of<Texts>(file, "tokenizer.ggml.merges"),
                   list_of<std::vector<double>>(file, "tokenizer.ggml.scores"),
                   list_of<std::vector<std::int64_t>>(file, "tokenizer.ggml.token_type")};
  const std::string kind = file.text("tokenizer.ggml.model", ""), name = file.text("tokenizer.ggml.pre", "");
  if (found.tokens == nullptr) {
    return Error{Code::kNotFound,
                 path +
                     ": has no tokenizer (tokenizer.ggml.tokens); prompts must be token ids, "
                     "or use another file of the model"};
  }
  if (kind != "gpt2" && kind != "gemma4" && kind != "llama") {
    return Error{Code::kUnsupported, path + ": tokenizer.ggml.model: expected gpt2, llama or gemma4, found " +
                                         in_quotes(kind) +
                                         "; use the original repository, which has tokenizer.json"};
  }
  const std::size_t tokens = found.tokens->size();
  const bool pieces = kind == "llama";
  const bool joins =
      pieces ? found.scores != nullptr && found.scores->size() == tokens : found.merges != nullptr;
  if (!joins || found.kinds == nullptr || found.kinds->size() != tokens) {
    return Error{Code::kCorrupt, path + ": expected tokenizer.ggml." +
                                     (pieces ? "scores and token_type" : "merges, and token_type") +
                                     " for each of " + std::to_string(tokens) +
                                     " tokens; download the file again"};
  }
  if (pieces) {
    found.merges = nullptr, found.splitting = &kOfPieces;
    return found;
  }
  if (kind == "gemma4") {
    found.splitting = &kOfGemma4;
    return found;
  }
  const auto* const known = std::ranges::find(kSplittings, name, &Splitting::name);
  if (known == kSplittings.end()) {
    std::string names;
    for (const Splitting& splitting : kSplittings)
      names += (names.empty() ? "" : ", ") + std::string(splitting.name);
    return Error{Code::kUnsupported, path + ": tokenizer.ggml.pre: expected one of " + names + ", found " +
                                         in_quotes(name) +
                                         "; use the original repository, which has tokenizer.json"};
  }
  found.splitting = &*known;
  return found;
}

/// Appends a string of JSON. Most tokens need no escapes; the others are left to the library.
void append_quoted(std::string& to, const std::string& text) {
  const bool plain =
      std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; });
  if (plain) {
    to += '"', to += text, to += '"';
  } else {
    to += write_json(json(text));
  }
}

std::string quoted_list(const Texts& texts) {
  std::string list = "[";
  for (const std::string& text : texts) {
    if (list.size() > 1) list += ',';
    append_quoted(list, text);
  }
  return list += ']';
}

/// Adds a member, whose value is text of JSON, to an object that has members.
void add_member(std::string& object, std::string_view name, std::string_view value) {
  object.back() = ',';
  object.append("\"").append(name).append("\":").append(value).append("}");
}

/// tokenizer.json. A vocabulary has up to a quarter of a million tokens, and as many merges: they are written
/// as text at once.
std::string tokenizer_text(const GgufFile& file, const Vocabulary& from) {
  json added = json::array();
  std::string vocabulary = "{";
  std::unordered_set<std::string_view> seen(from.tokens->size());
  for (std::size_t id = 0; id < from.tokens->size(); ++id) {
    const std::int64_t kind = (*from.kinds)[id];
    const std::string& text = (*from.tokens)[id];
    if (!seen.insert(text).second) continue;  // of two equal tokens only the first can be written
    if (vocabulary.size() > 1) vocabulary += ',';
    append_quoted(vocabulary, text);
    vocabulary.append(":").append(std::to_string(id));
    if (kind == kControl || kind == kUserDefined)
      added.push_back(added_token(static_cast<std::int64_t>(id), text, kind == kControl));
  }
  vocabulary += '}';
  const auto flag = [&](const char* key, bool otherwise) {
    const GgufValue* value = file.find(key);
    const bool* said = value == nullptr ? nullptr : std::get_if<bool>(value);
    return said != nullptr ? *said : otherwise;
  };
  const bool with_bos = flag("tokenizer.ggml.add_bos_token", from.splitting->adds_bos);
  const bool prefixed =
      from.splitting->words == Words::kPieces && flag("tokenizer.ggml.add_space_prefix", true);
  const auto bos = with_bos ? from.named(file, "tokenizer.ggml.bos_token_id") : std::nullopt;
  const bool spaces = writes_spaces(*from.splitting);
  const auto unknown = spaces ? from.named(file, "tokenizer.ggml.unknown_token_id") : std::nullopt;
  const json settings = {
      {"type", "BPE"},      {"dropout", nullptr},      {"unk_token", unknown ? json(*unknown) : json()},
      {"fuse_unk", spaces}, {"byte_fallback", spaces}, {"ignore_merges", from.splitting->ignores_merges}};
  std::string model = write_json(settings);
  add_member(model, "merges",
             quoted_list(from.merges != nullptr ? *from.merges
                                                : merges_of_pieces(*from.tokens, *from.scores, *from.kinds)));
  add_member(model, "vocab", vocabulary);
  const json document = {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", std::move(added)},
      {"normalizer", normalizer(*from.splitting, prefixed)},
      {"pre_tokenizer", pre_tokenizer(*from.splitting)},
      {"post_processor", post_processor(bos, file.whole("tokenizer.ggml.bos_token_id", 0), !spaces)},
      {"decoder", decoder(*from.splitting, prefixed)}};
  std::string text = write_json(document);
  add_member(text, "model", model);
  return text;
}

}  // namespace

Result<std::map<std::string, std::string>> tokenizer_files(const GgufFile& file, const std::string& path) {
  FT_ASSIGN(const Vocabulary vocabulary, vocabulary_of(file, path));
  std::map<std::string, std::string> files;
  files["tokenizer.json"] = tokenizer_text(file, vocabulary) + "\n";
  json settings = {{"tokenizer_class", "PreTrainedTokenizerFast"}};
  const std::pair<const char*, const char*> kTokens[] = {{"tokenizer.ggml.bos_token_id", "bos_token"},
                                                         {"tokenizer.ggml.eos_token_id", "eos_token"},
                                                         {"tokenizer.ggml.unknown_token_id", "unk_token"},
                                                         {"tokenizer.ggml.padding_token_id", "pad_token"}};
  for (const auto& [key, name] : kTokens) {
    if (const auto text = vocabulary.named(file, key)) settings[name] = *text;
  }
  const std::string chat = file.text("tokenizer.chat_template", "");
  const std::string with_tools = file.text("tokenizer.chat_template.tool_use", "");
  if (!chat.empty() && !with_tools.empty()) {
    settings["chat_template"] = {{{"name", "default"}, {"template", chat}},
                                 {{"name", "tool_use"}, {"template", with_tools}}};
  } else if (!chat.empty()) {
    files["chat_template.jinja"] = chat;
  }
  files["tokenizer_config.json"] = write_json(settings, 2) + "\n";
  return files;
}

std::vector<std::int64_t> end_tokens(const GgufFile& file) {
  const auto* tokens = list_of<Texts>(file, "tokenizer.ggml.tokens");
  const auto* kinds = list_of<std::vector<std::int64_t>>(file, "tokenizer.ggml.token_type");
  std::vector<std::int64_t> ends;
  // In harmony it is between the messages of one answer, though files may name it as an end.
  const auto divides = [&](std::int64_t id) {
    return tokens != nullptr && id < std::ssize(*tokens) &&
           (*tokens)[static_cast<std::size_t>(id)] == "<|end|>" &&
           std::ranges::find(*tokens, "<|return|>") != tokens->end();
  };
  const auto add = [&](std::int64_t id) {
    if (id >= 0 && !divides(id) && std::ranges::find(ends, id) == ends.end()) ends.push_back(id);
  };
  for (const char* key :
       {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
    const std::int64_t id = file.whole(key, -1);
    if (tokens == nullptr || id < std::ssize(*tokens)) add(id);
  }
  if (tokens == nullptr || kinds == nullptr || tokens->size() != kinds->size()) return ends;
  for (std::size_t id = 0; id < tokens->size(); ++id) {
    if ((*kinds)[id] == kControl && std::ranges::find(kEnds, (*tokens)[id]) != std::end(kEnds))
      add(static_cast<std::int64_t>(id));
  }
  return ends;
}

}  // namespace ft::format
