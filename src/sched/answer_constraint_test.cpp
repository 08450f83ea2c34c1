// Grammars and thinking budgets through the engine, on the shipped model: the same tokens with and without
// drafts, every answer valid, and budgets exact to the token.
#include "sched/answer_constraint.h"

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "tests/small_engine.h"
#include "text/chat_format/qwen3_5.h"

namespace ft::test::answer_constraint_test {
namespace {

constexpr std::string_view kSchema = R"({"type": "object", "properties": {
    "name": {"type": "string", "maxLength": 12}, "age": {"type": "integer", "minimum": 0, "maximum": 30},
    "kind": {"enum": ["cat", "dog"]}, "good": {"type": "boolean"},
    "tags": {"type": "array", "items": {"enum": ["small", "loud"]}, "maxItems": 2}},
    "required": ["name", "age", "kind", "good", "tags"], "additionalProperties": false})";

/// True if kSchema allows `text`.
bool valid(const std::string& text) {
  const auto value = nlohmann::json::parse(text, nullptr, false);
  if (!value.is_object() || value.size() != 5) return false;
  const bool tags = value["tags"].is_array() && value["tags"].size() <= 2 &&
                    std::all_of(value["tags"].begin(), value["tags"].end(),
                                [](const auto& tag) { return tag == "small" || tag == "loud"; });
  return tags && value["name"].is_string() && value["age"].is_number_integer() && value["age"] >= 0 &&
         value["age"] <= 30 && (value["kind"] == "cat" || value["kind"] == "dog") &&
         value["good"].is_boolean();
}

class ConstrainedEngine : public EngineTest {
 protected:
  void SetUp() override {
    EngineTest::SetUp();
    compiler_ = std::make_unique<GrammarCompiler>(*tokenizer_, std::vector<std::int32_t>{8180, 8178});
    grammar_ = std::move(*compiler_->json_schema(kSchema));
  }
  RequestFields asked(std::uint64_t seed, DrafterKind kind, bool thinking = false) {
    RequestFields request = fields("Describe a pet as JSON.", kind, 160);
    if (thinking) {
      request.prompt_text =
          "<|im_start|>user\nDescribe a pet as JSON.<|im_end|>\n<|im_start|>assistant\n<think>\n";
      request.prompt = *tokenizer_->encode(request.prompt_text, false);
    }
    request.slot.sampler.temperature = 1;
    request.slot.sampler.seed = seed;
    return request;
  }
  /// Tokens before </think>, or -1 if there is none.
  static int reasoning_tokens(const Collected& answer) {
    const auto close = std::find(answer.tokens.begin(), answer.tokens.end(), 8191);
    return close == answer.tokens.end() ? -1 : static_cast<int>(close - answer.tokens.begin());
  }

  std::unique_ptr<GrammarCompiler> compiler_;
  std::shared_ptr<const Grammar> grammar_;
};

TEST_F(ConstrainedEngine, EveryAnswerIsValidAndDrafted) {
  const char* full = std::getenv("FORETOKEN_FULL");
  const std::uint64_t seeds = full != nullptr && *full == '1' ? 240 : 24;
  for (std::uint64_t seed = 0; seed < seeds;) {
    std::vector<Ticket> tickets;
    const std::uint64_t first = seed;
    for (; seed < std::min(seeds, first + 3); ++seed) {
      RequestFields request = asked(seed, DrafterKind::kAuto);
      request.grammar = grammar_;
      tickets.push_back(submit(std::move(request)));
    }
    for (Ticket& ticket : tickets) {
      const Collected answer = collect(ticket);
      EXPECT_EQ(answer.finish, Finish::kStop) << answer.error.message;
      EXPECT_TRUE(valid(answer.text)) << answer.text;
      EXPECT_TRUE(answer.report.engaged) << answer.report.reason;
      EXPECT_GT(answer.report.speculation.accepted, 0);
    }
  }
}

TEST_F(ConstrainedEngine, DraftsChangeNoToken) {
  for (const bool thinking : {false, true}) {
    for (std::uint64_t seed = 0; seed < 2; ++seed) {
      RequestFields plain = asked(seed, DrafterKind::kNone, thinking);
      plain.grammar = grammar_, plain.thinking_budget = 9;
      const Collected expected = answer(plain);
      EXPECT_TRUE(valid(expected.text)) << expected.text;
      for (const DrafterKind kind : {DrafterKind::kMtp, DrafterKind::kLookup, DrafterKind::kAuto}) {
        for (const int depth : {1, 8, -1}) {
          RequestFields drafted = asked(seed, kind, thinking);
          drafted.grammar = grammar_, drafted.thinking_budget = 9, drafted.slot.depth = depth;
          EXPECT_EQ(answer(drafted).tokens, expected.tokens) << "seed " << seed << " depth " << depth;
        }
      }
    }
  }
}

TEST_F(ConstrainedEngine, ABudgetIsExact) {
  for (const int budget : {0, 1, 7, 20}) {
    RequestFields request = asked(3, DrafterKind::kAuto, true);
    request.thinking_budget = budget;
    const Collected answer_of = answer(request);
    EXPECT_GE(reasoning_tokens(answer_of), 0);
    EXPECT_LE(reasoning_tokens(answer_of), budget);
    RequestFields free = asked(3, DrafterKind::kNone, true);
    const Collected unlimited = answer(free);
    const int natural = reasoning_tokens(unlimited);
    const int expected = natural < 0 ? budget : std::min(natural, budget);
    EXPECT_EQ(reasoning_tokens(answer_of), expected);
    EXPECT_TRUE(
        std::equal(unlimited.tokens.begin(), unlimited.tokens.begin() + expected, answer_of.tokens.begin()))
        << "within the budget, the reasoning is the same as without one";
  }
}

TEST_F(ConstrainedEngine, ReasoningBeforeAGrammarCannotEndTheAnswer) {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    RequestFields request = asked(seed, DrafterKind::kAuto, true);
    request.grammar = grammar_, request.thinking_budget = 30;
    request.slot.bias = {{8180, 8.0F}};  // the model would rather end at once
    const Collected found = answer(request);
    EXPECT_TRUE(valid(found.text)) << found.text << " after " << found.reasoning;
  }
}

TEST_F(ConstrainedEngine, AnAnswerMayOpenItsReasoningItself) {
  RequestFields request = asked(1, DrafterKind::kAuto);
  request.prompt_text = "<|im_start|>user\nDescribe a pet.<|im_end|>\n<|im_start|>assistant\n";
  request.prompt = *tokenizer_->encode(request.prompt_text, false);
  request.grammar = grammar_, request.thinking_budget = 4;
  request.slot.bias = {{8190, 50.0F}};  // <think>
  const Collected opened = answer(request);
  ASSERT_EQ(opened.tokens.front(), 8190);
  EXPECT_EQ(reasoning_tokens(opened), 5) << "<think> and four tokens";
  EXPECT_FALSE(opened.reasoning.empty());
  EXPECT_TRUE(valid(opened.text)) << opened.text;
}

TEST_F(ConstrainedEngine, ACutAnswerStaysCut) {
  RequestFields request = asked(1, DrafterKind::kAuto);
  request.grammar = grammar_, request.slot.max_tokens = 10;
  const Collected cut = answer(request);
  EXPECT_EQ(cut.finish, Finish::kLength);
  EXPECT_EQ(cut.tokens.size(), 10U);
}

TEST_F(ConstrainedEngine, ARequiredCallIsMadeAndNothingElse) {
  ToolCallRules rules;
  rules.format = &kQwen35Format;
  rules.tools_json = R"([{"type": "function", "function": {"name": "get_weather", "parameters": {
      "type": "object", "properties": {"city": {"type": "string", "enum": ["Paris", "Rome"]},
      "days": {"type": "integer"}}, "required": ["city", "days"]}}}])";
  rules.required = true, rules.parallel = false;
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    RequestFields request = asked(seed, DrafterKind::kAuto);
    request.grammar = *compiler_->tool_calls(rules);
    request.tools = rules.tools_json;
    Ticket ticket = submit(std::move(request));
    std::string name, arguments, text;
    for (Event event = ticket.next(); event.kind != Event::Kind::kEnd; event = ticket.next()) {
      if (event.kind == Event::Kind::kToolBegin) name += event.text;
      if (event.kind == Event::Kind::kToolArguments) arguments += event.text;
      if (event.kind == Event::Kind::kText) text += event.text;
    }
    EXPECT_EQ(name, "get_weather");
    EXPECT_EQ(text, "");
    const auto value = nlohmann::json::parse(arguments, nullptr, false);
    ASSERT_TRUE(value.is_object()) << arguments;
    EXPECT_TRUE(value["city"] == "Paris" || value["city"] == "Rome") << arguments;
    EXPECT_TRUE(value["days"].is_number_integer()) << arguments;
  }
}

TEST(Request, ABudgetBelowNoneIsRefused) {
  RequestFields fields;
  fields.prompt = {1}, fields.slot.max_tokens = 1;
  fields.thinking_budget = -1;
  EXPECT_TRUE(Request::make(fields, 10).ok());
  fields.thinking_budget = -2;
  const Result<Request> refused = Request::make(fields, 10);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("thinking_budget"), std::string::npos);
}

}  // namespace
}  // namespace ft::test::answer_constraint_test
