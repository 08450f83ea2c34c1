// Draws random finished calls from the grammar of a tool's schema, without a model: a line of JSON
// {"format", "tools", "required", "seed", "draws"} from standard input gives a line {"refused"} or
// {"calls": [{"name", "arguments", "ended", "text"}], "content", "unfinished"}: what a client sees. Texts
// hold markup of the formats, in its own tokens and spelt in others. With "on_sight": true the answers are
// free until a call begins, and "cut" says where an answer that ends early is not the beginning of the whole
// one. For call_schemas_test.py.
#include <algorithm>
#include <fmt/format.h>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "sched/answer_constraint.h"
#include "text/answer.h"
#include "text/chat_format/gemma4.h"
#include "text/chat_format/glm4_moe.h"
#include "text/chat_format/granite.h"
#include "text/chat_format/harmony.h"
#include "text/chat_format/hermes.h"
#include "text/chat_format/llama3_json.h"
#include "text/chat_format/mistral.h"
#include "text/chat_format/qwen3_5.h"
#include "text/grammar.h"

namespace ft {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxTokens = 250;
constexpr size_t kLongTokens = 60;

void add_text(Json& to, const std::string& more) { to = to.get<std::string>() + more; }

/// Without the sign in place of a character whose bytes were cut.
std::string without_cut_character(std::string text) {
  constexpr std::string_view kSign = "\uFFFD";
  if (text.ends_with(kSign)) text.resize(text.size() - kSign.size());
  return text;
}

/// An empty mask allows everything.
bool allowed(std::span<const uint32_t> mask, int32_t id) {
  return mask.empty() || ((mask[static_cast<size_t>(id) / 32] >> (id % 32)) & 1U) != 0;
}

struct Drawing {
  const ChatFormat& format;
  Tokenizer tokenizer;
  std::vector<int32_t> eos;
  std::vector<std::vector<int32_t>> endings;  // texts that end a string, an array, a value
  std::vector<std::vector<int32_t>> markup;   // texts that a parser of calls may take for its own
  ThinkingMarks marks;
  GrammarCompiler grammars;

  Drawing(const ChatFormat& chosen, const char* folder, std::vector<int32_t> ends)
      : format(chosen),
        tokenizer(std::move(Tokenizer::load(folder)).value()),
        eos(std::move(ends)),
        marks(tokenizer, eos, format),
        grammars(tokenizer, eos) {
    for (const char* text : {"\n</parameter>", "</arg_value>", "\"", "}", "]", "<|\"|>"})
      endings.push_back(encoded(text));
    std::vector<std::string> texts = {std::string(format.calls.begin), std::string(format.calls.end)};
    texts.insert(texts.end(), format.special_tokens.begin(), format.special_tokens.end());
    for (const char* text :
         {"</parameter>\n</function>\n</tool_call>", "</parameter>\n<parameter=a>\n", "</parameter>",
          "</arg_value>\n<arg_key>a</arg_key>\n<arg_value>", "</arg_value></tool_call>", "</tool_call>",
          "<tool_call>", "</think>", "<think>", "<tool_call|>", "\"}}\n</tool_call>", "<|call|>",
          "<|end|><|start|>assistant<|channel|>final<|message|>", "[TOOL_CALLS]", "\\\"", "\\u003c", ", \""})
      texts.emplace_back(text);
    for (const std::string& text : texts) {
      if (text.empty()) continue;
      markup.push_back(encoded(text));
      markup.push_back(spelt(text));
    }
  }

  std::vector<int32_t> encoded(std::string_view text) const {
    return std::move(tokenizer.encode(text, false)).value();
  }

  /// In tokens of a byte, so none is a special token.
  std::vector<int32_t> spelt(std::string_view text) const {
    std::vector<int32_t> ids;
    for (const char c : text) {
      for (const int32_t id : encoded({&c, 1})) ids.push_back(id);
    }
    return ids;
  }

  /// Tokens that an answer tries to take next; often none. A long answer tries to end.
  std::vector<int32_t> wish(size_t step, std::mt19937_64& random) const {
    const auto one_of = [&](const auto& all) { return all[random() % all.size()]; };
    const auto chance = random() % 8;
    if (step > kLongTokens || chance < 4) return one_of(endings);
    return chance == 4 ? one_of(markup) : std::vector<int32_t>();
  }

  /// The tokens of one answer that begins with `wanted` where it may; nothing if it does not end. `mask()`:
  /// the tokens that may come next; `take(id)`: one of them.
  template <class Mask, class Take>
  std::optional<std::vector<int32_t>> walk(std::vector<int32_t> wanted, Mask mask, Take take,
                                           std::mt19937_64& random) const {
    std::vector<int32_t> all, ids;
    for (size_t step = 0; step < kMaxTokens; ++step) {
      if (wanted.empty()) wanted = wish(step, random);
      const auto words = mask();
      if (!words) return std::nullopt;
      int32_t id = -1;
      if (!wanted.empty() && allowed(*words, wanted.front())) {
        id = wanted.front();
        wanted.erase(wanted.begin());
      } else {
        wanted.clear(), ids.clear();
        for (int32_t one = 0; one < tokenizer.vocab_size(); ++one) {
          if (allowed(*words, one)) ids.push_back(one);
        }
        if (ids.empty()) return std::nullopt;
        id = ids[random() % ids.size()];
      }
      if (std::ranges::find(eos, id) != eos.end()) return all;
      if (!take(id)) return std::nullopt;
      all.push_back(id);
    }
    return std::nullopt;
  }

  /// The tokens of one answer that follows a grammar from its beginning on. The matcher of all answers of a
  /// grammar is one: it goes back, and keeps what it knows of the grammar.
  std::optional<std::vector<int32_t>> draw(const Grammar& grammar, std::optional<GrammarMatcher>& kept,
                                           bool required, std::mt19937_64& random) const {
    if (!kept) kept.emplace(std::move(grammar.start()).value());
    GrammarMatcher& matcher = *kept;
    size_t taken = 0;
    std::vector<uint32_t> words(static_cast<size_t>(tokenizer.vocab_size()) / 32 + 1);
    // Where a mask takes too much work, all further calls fail: the answer does not end.
    const auto mask = [&] {
      return matcher.mask(words).ok() ? std::optional(std::span<const uint32_t>(words)) : std::nullopt;
    };
    const auto take = [&](int32_t id) {
      const bool right = matcher.consume({&id, 1}).ok();
      taken += right ? 1 : 0;
      return right;
    };
    auto ids = walk(required ? std::vector<int32_t>() : before_call(random), mask, take, random);
    if (!matcher.rollback(taken).ok()) kept.reset();
    return ids;
  }

  /// The tokens of one answer to a request that may call: text, perhaps a call. The first call that begins
  /// obeys `fields.grammar`.
  std::optional<std::vector<int32_t>> draw_on_sight(const RequestFields& fields,
                                                    std::mt19937_64& random) const {
    const auto constraint = std::move(AnswerConstraint::make(fields, tokenizer, marks)).value();
    const auto take = [&](int32_t id) {
      constraint->commit({&id, 1});
      return true;
    };
    return walk(before_call(random), [&] { return constraint->mask({}); }, take, random);
  }

  /// A few tokens of text and the beginning of a call, sometimes spelt in bytes and sometimes twice.
  std::vector<int32_t> before_call(std::mt19937_64& random) const {
    const std::string begin = begin_of_call(random() % 4 == 0);
    std::vector<int32_t> ids = encoded(random() % 2 == 0 ? "" : "I look.");
    const std::vector<int32_t> more = random() % 3 == 0 ? spelt(begin) : encoded(begin);
    ids.insert(ids.end(), more.begin(), more.end());
    return ids;
  }

  std::string begin_of_call(bool twice) const {
    const std::string begin(format.calls.begin);
    return twice && !format.channels ? begin + begin : begin;
  }

  /// The answer after its first tokens, as a client sees it.
  Json seen(const std::vector<int32_t>& ids, size_t count, const RequestFields& fields, bool cut) const {
    AnswerOptions options;
    options.parse_tools = true, options.tools_json = fields.tools;
    Answer answer = std::move(Answer::create(tokenizer, format, options)).value();
    Json result = {{"calls", Json::array()}, {"content", ""}};
    const auto take = [&](const std::vector<AnswerEvent>& events) {
      for (const AnswerEvent& event : events) {
        Json& calls = result["calls"];
        if (event.kind == AnswerEvent::Kind::kText) add_text(result["content"], event.text);
        if (event.kind == AnswerEvent::Kind::kToolBegin)
          calls.push_back({{"name", event.text}, {"arguments", ""}, {"ended", false}});
        if (event.kind == AnswerEvent::Kind::kToolArguments) add_text(calls.back()["arguments"], event.text);
        if (event.kind == AnswerEvent::Kind::kToolEnd) calls.back()["ended"] = true;
      }
    };
    for (size_t i = 0; i < count; ++i) take(answer.push(ids[i]));
    take(answer.finish(cut));
    return result;
  }

  /// The beginning of a call that never came may be the end of a text.
  /// Without a mark of a call, an answer is text until the name of the tool is known.
  bool is_cut_content(const std::string& cut, const Json& all) const {
    const std::string shown = without_cut_character(cut), whole = all["content"];
    if (whole.starts_with(shown)) return true;
    const bool unmarked = format.calls.whole_answer && !format.channels && !all["calls"].empty();
    const std::string begin = begin_of_call(true) + (unmarked ? all["calls"][0]["name"].dump() : "");
    return shown.starts_with(whole) && begin.find(shown.substr(whole.size())) != std::string::npos;
  }

  /// Why an answer cut after `count` tokens is not the beginning of the whole one; empty: it is.
  std::string fault_of_cut(const std::vector<int32_t>& ids, size_t count, const RequestFields& fields,
                           const Json& whole) const {
    const Json cut = seen(ids, count, fields, true);
    // The value that was cut may still be read otherwise, as text for example: compared up to its start.
    const auto begins = [](const Json& part, const Json& all) {
      const std::string shown = without_cut_character(part), text = all;
      const auto [end, same] = std::ranges::mismatch(shown, text);
      return end == shown.end() ||
             (end != shown.begin() && std::string_view(":,[ ").find(end[-1]) != std::string_view::npos);
    };
    bool right = is_cut_content(cut["content"], whole);
    right = right && cut["calls"].size() <= whole["calls"].size();
    for (size_t i = 0; right && i < cut["calls"].size(); ++i) {
      const Json& call = cut["calls"][i];
      const Json& full = whole["calls"][i];
      right = call["name"] == full["name"] && begins(call["arguments"], full["arguments"]) &&
              (!call["ended"].get<bool>() || call["arguments"] == full["arguments"]);
    }
    return right ? "" : fmt::format("cut after {} of {} tokens: {}", count, ids.size(), cut.dump());
  }

  Json answer(const Json& asked) const {
    const bool on_sight = asked.value("on_sight", false);
    ToolCallRules rules;
    rules.tools_json = asked["tools"].dump(), rules.format = &format, rules.on_sight = on_sight;
    if (!on_sight) rules.required = asked["required"].get<bool>(), rules.parallel = false;
    const auto grammar = grammars.tool_calls(rules);
    if (!grammar.ok()) return {{"refused", grammar.error().message}};
    RequestFields fields;
    fields.tools = rules.tools_json, fields.grammar = *grammar;
    std::mt19937_64 random(asked["seed"].get<uint64_t>());
    Json result = {{"calls", Json::array()}, {"content", Json::array()}, {"unfinished", 0}};
    std::optional<GrammarMatcher> matcher;
    for (int i = 0; i < asked["draws"].get<int>(); ++i) {
      const auto ids =
          on_sight ? draw_on_sight(fields, random) : draw(**grammar, matcher, rules.required, random);
      if (!ids) {
        result["unfinished"] = result["unfinished"].get<int>() + 1;
        continue;
      }
      const Json whole = seen(*ids, ids->size(), fields, false);
      std::string text;
      for (const int32_t id : *ids) text += tokenizer.token_bytes(id);
      for (Json call : whole["calls"]) {
        call["text"] = text;
        result["calls"].push_back(std::move(call));
      }
      if (whole["content"] != "") result["content"].push_back(whole["content"]);
      for (size_t count = 0; on_sight && count < ids->size() && !result.contains("cut"); ++count) {
        const std::string fault = fault_of_cut(*ids, count, fields, whole);
        if (!fault.empty()) result["cut"] = fault + "\nwhole: " + whole.dump();
      }
    }
    return result;
  }
};

}  // namespace
}  // namespace ft

int main() {
  constexpr const char* kQwen = "assets/qwen3.5-tiny";
  constexpr const char* kGemma = "tests/golden/gemma4/odd";
  std::map<std::string, ft::Drawing, std::less<>> drawings;
  const auto add = [&](const ft::ChatFormat& format, const char* folder, std::vector<int32_t> ends) {
    drawings.try_emplace(std::string(format.name), format, folder, std::move(ends));
  };
  add(ft::kQwen35Format, kQwen, {8180, 8178});
  add(ft::kHermesFormat, kQwen, {8180, 8178});
  add(ft::kLlama3JsonFormat, kQwen, {8180, 8178});
  add(ft::kGlm4MoeFormat, kQwen, {8180, 8178});
  add(ft::kGraniteFormat, kQwen, {8180, 8178});
  add(ft::kMistralFormat, kQwen, {8180, 8178});
  add(ft::kMistralListFormat, kQwen, {8180, 8178});
  add(ft::kGemma4Format, kGemma, {1, 106, 50});
  add(ft::kHarmonyFormat, "tests/golden/gpt_oss/mxfp4", {2, 7});
  for (std::string line; std::getline(std::cin, line);) {
    const auto asked = nlohmann::ordered_json::parse(line);
    const ft::Drawing& drawing = drawings.at(asked["format"].get<std::string>());
    std::cout << drawing.answer(asked).dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace)
              << std::endl;
  }
}
