// Draws random finished calls from the grammar of a tool's schema, without a model: a line of JSON
// {"format", "tools", "required", "seed", "draws"} from standard input gives a line {"refused"} or
// {"calls": [{"name", "arguments", "text"}], "content", "unfinished"}. Each text goes through the parser of
// its format. For call_schemas_test.py.
#include <algorithm>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "text/chat_format/gemma4.h"
#include "text/chat_format/glm4_moe.h"
#include "text/chat_format/harmony.h"
#include "text/chat_format/hermes.h"
#include "text/chat_format/llama3_json.h"
#include "text/chat_format/qwen3_5.h"
#include "text/grammar.h"

namespace ft {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxTokens = 250;

struct Drawing {
  const ChatFormat& format;
  Tokenizer tokenizer;
  std::vector<int32_t> eos;
  std::vector<std::vector<int32_t>> endings;  // texts that end a string, an array, a value
  GrammarCompiler grammars;

  Drawing(const ChatFormat& chosen, const char* folder, std::vector<int32_t> ends)
      : format(chosen),
        tokenizer(std::move(Tokenizer::load(folder)).value()),
        eos(std::move(ends)),
        grammars(tokenizer, eos) {
    for (const char* text : {"\n</parameter>", "</arg_value>", "\"", "}", "]", "<|\"|>"}) {
      endings.push_back(std::move(tokenizer.encode(text, false)).value());
    }
  }

  bool allows(GrammarMatcher& matcher, int32_t id, std::vector<uint32_t>& mask) const {
    if (!matcher.mask(mask).ok()) return false;
    return ((mask[static_cast<size_t>(id) / 32] >> (id % 32)) & 1U) != 0;
  }

  /// Takes all tokens of an ending, or none.
  bool end(GrammarMatcher& matcher, const std::vector<int32_t>& ids, std::vector<uint32_t>& mask) const {
    for (size_t i = 0; i < ids.size(); ++i) {
      if (allows(matcher, ids[i], mask) && matcher.consume({&ids[i], 1}).ok()) continue;
      // Where a mask takes too much work, all further calls fail: the answer does not end.
      if (i > 0) static_cast<void>(matcher.rollback(i));
      return false;
    }
    return true;
  }

  /// The text of one answer; nothing if it does not end.
  std::optional<std::string> draw(const Grammar& grammar, std::mt19937_64& random) const {
    GrammarMatcher matcher = std::move(grammar.start()).value();
    std::vector<uint32_t> mask(static_cast<size_t>(tokenizer.vocab_size()) / 32 + 1);
    std::string text;
    for (size_t step = 0; step < kMaxTokens; ++step) {
      const auto& ending = endings[random() % endings.size()];
      if (random() % 2 == 0 && end(matcher, ending, mask)) {
        for (const int32_t id : ending) text += tokenizer.token_bytes(id);
        continue;
      }
      if (!matcher.mask(mask).ok()) return std::nullopt;
      std::vector<int32_t> ids;
      for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
        if (((mask[static_cast<size_t>(id) / 32] >> (id % 32)) & 1U) != 0) ids.push_back(id);
      }
      if (ids.empty()) return std::nullopt;
      const int32_t id = ids[random() % ids.size()];
      if (std::ranges::find(eos, id) != eos.end()) return text;
      if (!matcher.consume({&id, 1}).ok()) return std::nullopt;
      text += tokenizer.token_bytes(id);
    }
    return std::nullopt;
  }

  Json answer(const Json& asked) const {
    ToolCallRules rules;
    rules.tools_json = asked["tools"].dump();
    rules.format = &format, rules.required = asked["required"].get<bool>(), rules.parallel = false;
    const auto grammar = grammars.tool_calls(rules);
    if (!grammar.ok()) return {{"refused", grammar.error().message}};
    std::mt19937_64 random(asked["seed"].get<uint64_t>());
    Json result = {{"calls", Json::array()}, {"content", Json::array()}, {"unfinished", 0}};
    for (int i = 0; i < asked["draws"].get<int>(); ++i) {
      const auto text = draw(**grammar, random);
      if (!text) {
        result["unfinished"] = result["unfinished"].get<int>() + 1;
        continue;
      }
      const auto parser = format.calls.parser(std::move(ToolSchemas::parse(rules.tools_json)).value());
      std::vector<AnswerEvent> events;
      parser->push(*text, events);
      parser->finish(false, events);
      for (const AnswerEvent& event : events) {
        if (event.kind == AnswerEvent::Kind::kToolBegin)
          result["calls"].push_back({{"name", event.text}, {"arguments", ""}, {"text", *text}});
        if (event.kind == AnswerEvent::Kind::kText) result["content"].push_back(event.text);
        if (event.kind != AnswerEvent::Kind::kToolArguments) continue;
        Json& arguments = result["calls"].back()["arguments"];
        arguments = arguments.get<std::string>() + event.text;
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
  add(ft::kGemma4Format, kGemma, {1, 106, 50});
  add(ft::kHarmonyFormat, "tests/golden/gpt_oss/mxfp4", {2, 7});
  for (std::string line; std::getline(std::cin, line);) {
    const auto asked = nlohmann::ordered_json::parse(line);
    const ft::Drawing& drawing = drawings.at(asked["format"].get<std::string>());
    std::cout << drawing.answer(asked).dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace)
              << std::endl;
  }
}
