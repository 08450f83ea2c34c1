// A chat format that no model has, through all code that reads tags: only the format's file knows its tags.
#include "text/chat_format.h"

#include <algorithm>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "text/answer.h"
#include "text/chat_format/gemma4.h"
#include "text/chat_format/hermes.h"
#include "text/chat_format/qwen3_5.h"
#include "text/grammar_fixture.h"
#include "text/thinking_marks.h"

namespace ft::chat_format_test {
namespace {

using namespace grammar_fixture;

/// "@@NAME ARGUMENTS;;" with the arguments as JSON; the whole answer must have come.
class MadeUpParser final : public ToolParser {
 public:
  void push(std::string_view text, std::vector<AnswerEvent>& /*out*/) override { held_ += text; }
  void finish(bool /*cut*/, std::vector<AnswerEvent>& out) override {
    const size_t begin = held_.find("@@");
    if (begin > 0) out.push_back({AnswerEvent::Kind::kText, held_.substr(0, begin)});
    if (begin == std::string::npos) return;
    const size_t space = held_.find(' ', begin);
    ++calls_;
    out.push_back({AnswerEvent::Kind::kToolBegin, held_.substr(begin + 2, space - begin - 2)});
    const size_t end = held_.find(";;", space);
    out.push_back({AnswerEvent::Kind::kToolArguments, held_.substr(space + 1, end - space - 1)});
    out.push_back({AnswerEvent::Kind::kToolEnd, ""});
  }
  size_t calls() const override { return calls_; }

 private:
  std::string held_;
  size_t calls_ = 0;
};

Result<CallBody> made_up_body(const ToolFunction& function, const std::string& prefix, std::string& lark) {
  lark += fmt::format("{}_any: /[a-z]+/\n", prefix);
  return CallBody{fmt::format("\"{} \" {}_any", function.name, prefix), {}};
}

constexpr std::string_view kOpenings[] = {"@@", "a.b|c"};
const ChatFormat kMadeUp = {
    "made up",
    {"[[muse]]", "--->", "\n"},
    {"@@", ";;", "go", kOpenings,
     [](ToolSchemas /*schemas*/) -> std::unique_ptr<ToolParser> { return std::make_unique<MadeUpParser>(); },
     made_up_body, nullptr},
    {"(before)", "(after)", "(here)"}};

std::string shown(const ChatFormat& format, const std::string& text, bool starts_in_reasoning = false) {
  AnswerOptions options;
  options.parse_tools = true;
  options.tools_json = kTools;
  options.starts_in_reasoning = starts_in_reasoning;
  auto answer = Answer::create(tokenizer(), format, options);
  EXPECT_TRUE(answer.ok());
  std::vector<AnswerEvent> all;
  for (const int32_t id : ids_of(text)) {
    for (AnswerEvent& event : answer->push(id)) all.push_back(std::move(event));
  }
  for (AnswerEvent& event : answer->finish(false)) all.push_back(std::move(event));
  std::string out;
  std::optional<AnswerEvent::Kind> kind;
  for (const AnswerEvent& event : all) {
    if (kind != event.kind) out += "ptCRBAE"[static_cast<size_t>(event.kind)] + std::string(":");
    kind = event.kind;
    out += event.text;
  }
  return out;
}

TEST(ChatFormat, AnAnswerIsDividedAtTheTagsOfItsFormatAlone) {
  EXPECT_EQ(shown(kMadeUp, "[[muse]]why?\n--->\nyes @@now {};;"), "R:why?C:yes B:nowA:{}E:");
  EXPECT_EQ(shown(kMadeUp, "so---->yes", true), "R:so-C:yes");
  EXPECT_EQ(shown(kMadeUp, "why\n@@ go x;;", true), "R:whyB:A:go xE:") << "a call ends the reasoning";
  const std::string qwen = "<think>a</think><tool_call>\n<function=now>\n</function>\n</tool_call>";
  EXPECT_EQ(shown(kMadeUp, qwen), "C:" + qwen);
  EXPECT_EQ(shown(kQwen35Format, qwen), "R:aB:nowA:{}E:");
  EXPECT_EQ(shown(kQwen35Format, "[[muse]]why?--->@@now {};;"), "C:[[muse]]why?--->@@now {};;");
}

TEST(ChatFormat, APlainFormatHasOnlyContent) {
  const std::string text = "<think>a</think>[[muse]]--->@@now {};;<tool_call>\n<function=now>";
  EXPECT_EQ(shown(kPlainFormat, text), "C:" + text);
  EXPECT_EQ(shown(kPlainFormat, text, true), "C:" + text);
  EXPECT_FALSE(prompt_opens_thinking("anything", kPlainFormat.reasoning));
  EXPECT_FALSE(prompt_closes_thinking("", kPlainFormat.reasoning));
  ToolCallRules rules;
  rules.tools_json = kTools, rules.format = &kPlainFormat;
  EXPECT_EQ(compiler().tool_calls(rules).error().code, Code::kUnsupported);
  rules.format = nullptr;
  EXPECT_EQ(compiler().tool_calls(rules).error().code, Code::kUnsupported);
  const ThinkingMarks marks(tokenizer(), end_tokens(), kPlainFormat);
  EXPECT_FALSE(marks.open().has_value());
  EXPECT_TRUE(marks.close().empty());
}

TEST(ChatFormat, ThePromptAndTheMarksFollowTheFormat) {
  EXPECT_TRUE(prompt_opens_thinking("user: hi [[muse]]\n", kMadeUp.reasoning));
  EXPECT_FALSE(prompt_opens_thinking("<think>\n", kMadeUp.reasoning));
  EXPECT_TRUE(prompt_closes_thinking("[[muse]]--->\n", kMadeUp.reasoning));
  const ThinkingMarks marks(tokenizer(), end_tokens(), kMadeUp);
  EXPECT_EQ(marks.close(), ids_of("--->"));
  EXPECT_EQ(marks.gap(), ids_of("\n"));
  EXPECT_EQ(marks.follow(0, "a--"), 2U);
  EXPECT_EQ(marks.follow(2, "--"), 3U) << "the last three of four dashes";
  EXPECT_TRUE(marks.closed(marks.follow(3, ">")));
  EXPECT_EQ(marks.follow(3, "x-"), 1U);
  for (const char* text : {"a", "-->b"}) {  // a tag with content after it may not be one token
    for (const int32_t id : ids_of(text)) {
      const bool in_mask = (marks.mask(1)[static_cast<size_t>(id) / 32] >> (id % 32) & 1U) != 0;
      const std::string_view bytes = tokenizer().token_bytes(id);
      EXPECT_EQ(in_mask, !marks.closed(marks.follow(1, bytes.substr(0, bytes.size() - 1)))) << bytes;
    }
  }
}

TEST(ChatFormat, TheGrammarOfCallsIsWrittenByTheFormat) {
  ToolCallRules rules;
  rules.tools_json = kTools, rules.format = &kMadeUp;
  const auto lark = tool_call_lark(rules, tokenizer());
  ASSERT_TRUE(lark.ok()) << lark.error().message;
  EXPECT_EQ(lark->find("tool_call"), std::string::npos) << *lark;
  EXPECT_NE(lark->find(R"((@@|a\.b\|c))"), std::string::npos) << *lark;
  const auto grammar = tools(rules);
  EXPECT_TRUE(accepts(*grammar, "@@now abc;;"));
  EXPECT_TRUE(accepts(*grammar, "@@get_weather abc;;\n@@now b;;"));
  EXPECT_TRUE(accepts(*grammar, "Text with <function= inside"));
  EXPECT_FALSE(accepts(*grammar, "@@other abc;;"));
}

TEST(ChatFormat, IsChosenByTheNamesOfAFamilyAndByTheTemplate) {
  const std::string_view qwen[] = {"qwen3_5", "hermes", "qwen3_5 without a grammar of calls"};
  const std::string_view gemma[] = {"gemma4"}, other[] = {"no such format", "plain"};
  const auto chosen = [](std::span<const std::string_view> names, std::string_view source) {
    return choose_chat_format(names, source).name;
  };
  EXPECT_EQ(chosen(qwen, "<tool_call>\n<function="), kQwen35Format.name);
  EXPECT_EQ(chosen(qwen, "<tool_call>\n{\"name\": tool_call.name}"), kHermesFormat.name);
  EXPECT_EQ(chosen(qwen, ""), kQwen35FormatWithoutGrammar.name);
  EXPECT_EQ(chosen(gemma, "<tool_call>\n<function="), kGemma4Format.name) << "not by the template alone";
  EXPECT_EQ(chosen(other, "<tool_call>\n<function="), kPlainFormat.name);
  EXPECT_EQ(kQwen35FormatWithoutGrammar.calls.body, nullptr);
  EXPECT_EQ(kHermesFormat.reasoning.close, kQwen35Format.reasoning.close);
}

/// A tokenizer may call a tag special. Then it would be left out before its parser sees it.
TEST(ChatFormat, TagsArePartOfTheTextThoughTheyAreSpecialTokens) {
  for (const char* name :
       {"qwen3_5", "hermes", "glm4_moe", "mistral with reasoning", "granite with reasoning"}) {
    const ChatFormat* const format = find_chat_format(name);
    ASSERT_NE(format, nullptr) << name;
    for (const std::string_view tag : {format->reasoning.open, format->reasoning.close, format->calls.begin,
                                       format->calls.end, format->reasoning.content_open}) {
      EXPECT_TRUE(tag.empty() ||
                  std::ranges::find(format->special_tokens, tag) != format->special_tokens.end())
          << name << " " << tag;
    }
  }
}

}  // namespace
}  // namespace ft::chat_format_test
