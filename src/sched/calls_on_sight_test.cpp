// Optional calls: whatever text a model writes before one, and however it spells the beginning, a finished
// call has an offered name and arguments that its schema allows. Text stays free.
#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "sched/answer_constraint.h"
#include "tests/small_engine.h"
#include "text/answer.h"
#include "text/chat_format/gemma4.h"
#include "text/chat_format/glm4_moe.h"
#include "text/chat_format/harmony.h"
#include "text/chat_format/hermes.h"
#include "text/chat_format/llama3_json.h"
#include "text/chat_format/qwen3_5.h"

namespace ft::test::calls_on_sight_test {
namespace {

constexpr const char* kOffered = R"([
    {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object",
     "properties": {"city": {"type": "string", "enum": ["Paris", "Rome"]}, "days": {"type": "integer",
     "minimum": 0, "maximum": 30}},
     "required": ["city", "days"], "additionalProperties": false}}},
    {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {},
     "additionalProperties": false}}}])";

bool follows(const std::string& name, const std::string& arguments) {
  const auto value = nlohmann::json::parse(arguments, nullptr, false);
  if (!value.is_object()) return false;
  if (name == "now") return value.empty();
  return name == "get_weather" && value.size() == 2 && value.contains("city") && value.contains("days") &&
         (value["city"] == "Paris" || value["city"] == "Rome") && value["days"].is_number_integer();
}

struct Vocabulary {
  const ChatFormat& format;
  Tokenizer tokenizer;
  std::vector<std::int32_t> eos;
  ThinkingMarks marks;
  GrammarCompiler grammars;
  RequestFields fields;

  Vocabulary(const ChatFormat& chosen, const char* folder, std::vector<std::int32_t> ends, bool thinking)
      : format(chosen),
        tokenizer(std::move(*Tokenizer::load(folder))),
        eos(std::move(ends)),
        marks(tokenizer, eos, format),
        grammars(tokenizer, eos) {
    ToolCallRules rules;
    rules.tools_json = kOffered, rules.format = &format, rules.on_sight = true;
    const GrammarCompiler::Compiled grammar = grammars.tool_calls(rules);
    EXPECT_TRUE(grammar.ok()) << grammar.error().message;
    fields.parse = true, fields.tools = kOffered, fields.grammar = *grammar;
    fields.prompt_text = thinking ? std::string(format.reasoning.open) : "";
  }
};

struct Found {
  std::vector<std::pair<std::string, std::string>> calls;  // finished ones
  std::string text;
  size_t unmasked = 0;
};

std::vector<std::int32_t> tokens_of(const Vocabulary& v, const std::string& text, bool spelled) {
  if (!spelled) return *v.tokenizer.encode(text, false);
  std::vector<std::int32_t> all;
  for (const char c : text) {
    const std::vector<std::int32_t> ids = v.tokenizer.encode(std::string(1, c), false).value();
    all.insert(all.end(), ids.begin(), ids.end());
  }
  return all;
}

/// A text of tokens that the masks allow, which tries to write one of `beginnings` now and then.
Found walk(const Vocabulary& v, const std::vector<std::string>& beginnings, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  auto constraint = std::move(*AnswerConstraint::make(v.fields, v.tokenizer, v.marks));
  AnswerOptions options;
  options.split_reasoning = options.parse_tools = options.tool_call_ends_reasoning = true;
  options.starts_in_reasoning = prompt_opens_thinking(v.fields.prompt_text, v.format.reasoning);
  options.tools_json = kOffered;
  Answer answer = std::move(*Answer::create(v.tokenizer, v.format, options));
  Found found;
  bool open = false, ended = false;
  std::pair<std::string, std::string> call;
  const auto read = [&](const std::vector<AnswerEvent>& events) {
    for (const AnswerEvent& event : events) {
      if (event.kind == AnswerEvent::Kind::kToolBegin) call = {event.text, ""}, open = true;
      if (event.kind == AnswerEvent::Kind::kToolArguments) call.second += event.text;
      if (event.kind == AnswerEvent::Kind::kToolEnd && open) found.calls.push_back(call), open = false;
      if (event.kind == AnswerEvent::Kind::kText) found.text += event.text;
    }
  };
  std::vector<std::int32_t> wanted;
  for (int step = 0; step < 220 && !ended; ++step) {
    const auto mask = constraint->mask({});
    EXPECT_TRUE(mask.has_value()) << constraint->problem().message;
    if (!mask) return found;
    found.unmasked += mask->empty() ? 1 : 0;
    EXPECT_EQ(constraint->free_rows({}) == 1, mask->empty());
    const auto allowed = [&](std::int32_t id) {
      return mask->empty() || (((*mask)[static_cast<size_t>(id) / 32] >> (id % 32)) & 1U) != 0;
    };
    if (wanted.empty() && random() % 6 == 0) {
      wanted = tokens_of(v, beginnings[random() % beginnings.size()], random() % 3 == 0);
    }
    std::int32_t id = -1;
    if (!wanted.empty() && allowed(wanted.front())) id = wanted.front();
    if (id >= 0) {
      wanted.erase(wanted.begin());
    } else {
      wanted.clear();
      std::vector<std::int32_t> ids;
      for (std::int32_t i = 0; i < v.tokenizer.vocab_size(); ++i) {
        if (allowed(i)) ids.push_back(i);
      }
      EXPECT_FALSE(ids.empty());
      if (ids.empty()) return found;
      id = ids[random() % ids.size()];
      if (mask->empty() && v.marks.ends_answer(id)) continue;
    }
    // Two rows of drafts must show the mask that the answer has after them.
    EXPECT_TRUE(constraint->allows({&id, 1}));
    const auto drafted = constraint->mask({&id, 1});
    const std::vector<std::uint32_t> before =
        drafted ? std::vector<std::uint32_t>(drafted->begin(), drafted->end()) : std::vector<std::uint32_t>();
    constraint->commit({&id, 1});
    const auto after = constraint->mask({});
    EXPECT_EQ(drafted.has_value(), after.has_value());
    if (after) {
      EXPECT_EQ(before, std::vector<std::uint32_t>(after->begin(), after->end()));
    }
    ended = v.marks.ends_answer(id);
    if (!ended) read(answer.push(id));
  }
  read(answer.finish(!ended));
  return found;
}

void expect_obedient(const ChatFormat& format, const char* folder, std::vector<std::int32_t> eos,
                     const std::vector<std::string>& beginnings) {
  for (const bool thinking : {false, true}) {
    if (thinking && format.reasoning.open.empty()) continue;
    const Vocabulary v(format, folder, eos, thinking);
    size_t calls = 0, unmasked = 0;
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
      const Found found = walk(v, beginnings, seed);
      for (const auto& [name, arguments] : found.calls) {
        EXPECT_TRUE(follows(name, arguments))
            << format.name << " seed " << seed << " thinking " << thinking << ": " << name << arguments;
      }
      calls += found.calls.size(), unmasked += found.unmasked;
    }
    const bool searched = !format.calls.whole_answer || format.channels;
    EXPECT_GT(calls, searched ? 20U : 4U) << format.name << " thinking " << thinking;
    if (searched) {
      EXPECT_GT(unmasked, 200U) << format.name;
    }
  }
}

const std::vector<std::string> kTagged = {
    "<tool_call>\n<function=other>\n",
    "<tool_call>\n{\"name\": \"other\", \"arguments\": {}}\n</tool_call>",
    "<tool_call>",
    "<function=get_weather>\n<parameter=city>\nOslo",
    "<function=other>",
    "<tool_call><function=",
    "<tool_call><tool_call>\n<function=other>\n",
    "<tool_call>\n<<function=other>\n",
    "<tool_call>other\n<arg_key>",
    "</think>\n\n"};

TEST(CallsOnSight, OfQwenFollowTheirSchema) {
  expect_obedient(kQwen35Format, "assets/qwen3.5-tiny", {8180, 8178}, kTagged);
}

TEST(CallsOnSight, OfHermesFollowTheirSchema) {
  expect_obedient(kHermesFormat, "assets/qwen3.5-tiny", {8180, 8178}, kTagged);
}

TEST(CallsOnSight, OfGlmFollowTheirSchema) {
  expect_obedient(kGlm4MoeFormat, "assets/qwen3.5-tiny", {8180, 8178}, kTagged);
}

TEST(CallsOnSight, OfLlamaFollowTheirSchema) {
  expect_obedient(kLlama3JsonFormat, "assets/qwen3.5-tiny", {8180, 8178},
                  {"{\"name\": \"other\"", "{\"name\": ", "{\"name\":"});
}

TEST(CallsOnSight, OfGemmaFollowTheirSchema) {
  expect_obedient(kGemma4Format, "tests/golden/gemma4/odd", {1, 106, 50},
                  {"<|tool_call>call:other{", "<|tool_call>", "<|tool_call>call:get_weather{city:<|\"|>Oslo",
                   "<channel|>"});
}

TEST(CallsOnSight, OfHarmonyFollowTheirSchema) {
  expect_obedient(kHarmonyFormat, "tests/golden/gpt_oss/mxfp4", {2, 7},
                  {"<|end|><|start|>assistant<|channel|>commentary to=functions.other ",
                   "<|channel|>commentary to=get_weather <|constrain|>json<|message|>{}<|call|>",
                   "<|start|>assistant to=functions.get_weather<|channel|>commentary json<|message|>{",
                   "<|channel|>analysis to=functions.other<|message|>{}"});
}

class EngineWithTools : public EngineTest {
 protected:
  void SetUp() override {
    load();
    EngineOptions with_format = options();
    with_format.chat_format = &kQwen35Format;
    start(with_format);
  }
};

TEST_F(EngineWithTools, DraftsChangeNoTokenOfCallsOnSight) {
  GrammarCompiler compiler(*tokenizer_, {8180, 8178});
  ToolCallRules rules;
  rules.tools_json = kOffered, rules.format = &kQwen35Format, rules.on_sight = true;
  const auto grammar = *compiler.tool_calls(rules);
  const std::int32_t tag = *tokenizer_->id_of("<tool_call>");
  int called = 0;
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    std::vector<std::int32_t> expected;
    for (const DrafterKind kind : {DrafterKind::kNone, DrafterKind::kMtp, DrafterKind::kLookup}) {
      RequestFields request = fields("Describe a pet.", kind, 90);
      request.tools = kOffered, request.grammar = grammar;
      request.slot.sampler.temperature = 1, request.slot.sampler.seed = seed;
      request.slot.bias = {{tag, 9.0F}};
      Ticket ticket = submit(std::move(request));
      std::vector<std::int32_t> tokens;
      std::string name, arguments;
      for (Event event = ticket.next(); event.kind != Event::Kind::kEnd; event = ticket.next()) {
        if (event.kind == Event::Kind::kToken) tokens.push_back(event.token);
        if (event.kind == Event::Kind::kToolBegin) name = event.text, arguments.clear();
        if (event.kind == Event::Kind::kToolArguments) arguments += event.text;
        if (event.kind != Event::Kind::kToolEnd) continue;
        ++called;
        EXPECT_TRUE(follows(name, arguments)) << name << arguments;
      }
      if (kind == DrafterKind::kNone) expected = tokens;
      EXPECT_EQ(tokens, expected) << "seed " << seed;
    }
  }
  EXPECT_GT(called, 3);
}

/// The work of one answer with a call on sight, and of the same tokens as a free text and a required call.
struct CallCost {
  int answers = 0;
  std::int64_t tokens = 0, sight_rounds = 0, apart_rounds = 0, sight_drafted = 0, apart_drafted = 0;
};

TEST_F(EngineWithTools, ACallOnSightTakesAtMostOneRoundMoreThanARequiredOne) {
  GrammarCompiler compiler(*tokenizer_, {8180, 8178});
  ToolCallRules rules;
  rules.tools_json = kOffered, rules.format = &kQwen35Format, rules.on_sight = true;
  const auto watching = *compiler.tool_calls(rules);
  rules.on_sight = false, rules.required = true;
  const auto required = *compiler.tool_calls(rules);
  const std::int32_t tag = *tokenizer_->id_of("<tool_call>");
  CallCost cost;
  for (const DrafterKind kind : {DrafterKind::kMtp, DrafterKind::kLookup}) {
    for (std::uint64_t seed = 0; seed < 12; ++seed) {
      const auto asked = [&](std::shared_ptr<const Grammar> grammar, std::span<const std::int32_t> written,
                             int max_tokens) {
        RequestFields request = fields("Describe a pet.", kind, max_tokens);
        request.prompt.insert(request.prompt.end(), written.begin(), written.end());
        request.tools = kOffered, request.grammar = std::move(grammar);
        request.slot.depth = 3, request.slot.bias = {{tag, seed % 2 == 0 ? 9.0F : 100.0F}};
        request.slot.sampler.temperature = 1, request.slot.sampler.seed = seed;
        return answer(std::move(request));
      };
      const Collected whole = asked(watching, {}, 90);
      const auto call = std::ranges::find(whole.tokens, tag);
      if (call == whole.tokens.end()) continue;
      const std::vector<std::int32_t> text(whole.tokens.begin(), call), after(call, whole.tokens.end());
      const Collected second = asked(required, text, 90 - static_cast<int>(text.size()));
      ASSERT_EQ(second.tokens, after) << "seed " << seed;
      Collected first;
      if (!text.empty()) first = asked(nullptr, {}, static_cast<int>(text.size()));
      ASSERT_EQ(first.tokens, text) << "seed " << seed;
      const std::int64_t apart = first.report.speculation.rounds + second.report.speculation.rounds;
      EXPECT_LE(whole.report.speculation.rounds, apart + 1) << "seed " << seed;
      ++cost.answers, cost.tokens += static_cast<std::int64_t>(whole.tokens.size());
      cost.sight_rounds += whole.report.speculation.rounds, cost.apart_rounds += apart;
      cost.sight_drafted += whole.report.speculation.drafted;
      cost.apart_drafted += first.report.speculation.drafted + second.report.speculation.drafted;
    }
  }
  EXPECT_LE(cost.sight_rounds, cost.apart_rounds + cost.apart_rounds / 20);
  EXPECT_LE(cost.sight_drafted, cost.apart_drafted + cost.apart_drafted / 20);
  RecordProperty("tokens", std::to_string(cost.tokens));
  RecordProperty("rounds", fmt::format("{} on sight, {} apart", cost.sight_rounds, cost.apart_rounds));
  RecordProperty("drafts", fmt::format("{} on sight, {} apart", cost.sight_drafted, cost.apart_drafted));
  EXPECT_GT(cost.answers, 15);
}

TEST_F(EngineWithTools, TextWithoutACallTakesTheRoundsOfAFreeAnswer) {
  GrammarCompiler compiler(*tokenizer_, {8180, 8178});
  ToolCallRules rules;
  rules.tools_json = kOffered, rules.format = &kQwen35Format, rules.on_sight = true;
  const auto grammar = *compiler.tool_calls(rules);
  const std::int32_t tag = *tokenizer_->id_of("<tool_call>");
  std::int64_t accepted = 0;
  for (const DrafterKind kind : {DrafterKind::kMtp, DrafterKind::kLookup}) {
    const auto of = [&](std::shared_ptr<const Grammar> watched) {
      RequestFields request = fields("Describe a pet.", kind, 90);
      request.tools = kOffered, request.grammar = std::move(watched);
      request.slot.depth = 3, request.slot.bias = {{tag, -100.0F}};
      return answer(std::move(request));
    };
    const Collected free = of(nullptr), watched = of(grammar);
    EXPECT_EQ(watched.tokens, free.tokens);
    EXPECT_EQ(watched.report.speculation.rounds, free.report.speculation.rounds);
    EXPECT_EQ(watched.report.speculation.drafted, free.report.speculation.drafted);
    EXPECT_EQ(watched.report.speculation.accepted, free.report.speculation.accepted);
    accepted += watched.report.speculation.accepted;
  }
  EXPECT_GT(accepted, 0);
}

}  // namespace
}  // namespace ft::test::calls_on_sight_test
