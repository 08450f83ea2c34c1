#include "api/rendering.h"

#include <gtest/gtest.h>

namespace ft::api::rendering_test {
namespace {

const char kUserFirst[] = R"([{"role":"user","content":"a"},{"role":"assistant","content":"b"},)";

class Rendering : public testing::Test {
 protected:
  /// Uses the shipped model's template, which allows a system message only at the start.
  std::string render(const std::string& messages, bool continues = false) const {
    GenerateParams call;
    call.messages = messages, call.continues = continues;
    RenderOptions options;
    options.enable_thinking = false;
    const Result<RenderedConversation> made = render_conversation(template_, call, options);
    return made.ok() ? made->text : "refused: " + made.error().message;
  }
  const ChatTemplate template_ = std::move(*ChatTemplate::load("assets/qwen3.5-tiny"));
};

TEST_F(Rendering, ALateSystemMessageStaysInItsPlace) {
  const std::string before = render(kUserFirst + std::string(R"({"role":"user","content":"c"}])"));
  for (const char* role : {"system", "developer"}) {
    const std::string late = render(kUserFirst + std::string(R"({"role":")") + role +
                                    R"(","content":"mind"},{"role":"user","content":"c"}])");
    const std::size_t at = late.find("<system-reminder>\nmind\n</system-reminder>");
    ASSERT_NE(at, std::string::npos) << late;
    // The prompt before the system message is the same, token for token, without it.
    EXPECT_EQ(late.substr(0, late.find("<|im_start|>user\n<system-reminder>")),
              before.substr(0, before.find("<|im_start|>user\nc")));
    EXPECT_GT(late.find("\nc<|im_end|>"), at);
  }
}

TEST_F(Rendering, LeadingSystemMessagesAreTheSystem) {
  EXPECT_TRUE(render(R"([{"role":"system","content":"s"},{"role":"user","content":"c"}])")
                  .starts_with("<|im_start|>system\ns<|im_end|>"));
}

TEST_F(Rendering, WhatTheTemplateRefusesAnywayKeepsItsSentence) {
  EXPECT_NE(render(R"([{"role":"assistant","content":"b"}])").find("No user message"), std::string::npos);
}

TEST_F(Rendering, AnImageLeavesAPlaceholderAndIsGivenOut) {
  GenerateParams call;
  call.messages = R"([{"role":"user","content":[{"type":"image","url":"data:,","at":"here"},
                                                {"type":"text","text":"c"}]}])";
  const Result<RenderedConversation> made = render_conversation(template_, call, {});
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_NE(made->text.find("<|image_pad|>"), std::string::npos);
  ASSERT_EQ(made->images.size(), 1U);
  EXPECT_EQ(made->images[0].at, "here");
}

/// gpt-oss: without its header, the start of the answer would be read as a header.
TEST(RenderingOfHarmony, ABeginningHasTheHeaderOfContent) {
  const ChatTemplate harmony = std::move(*ChatTemplate::load("tests/golden/gpt_oss/mxfp4"));
  GenerateParams call;
  call.continues = true;
  call.messages = R"([{"role":"user","content":"c"},{"role":"assistant","content":"Well, "}])";
  const auto made = render_conversation(harmony, call, {}, "<|channel|>final<|message|>");
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_TRUE(made->text.ends_with("<|start|>assistant<|channel|>final<|message|>Well, ")) << made->text;
}

TEST_F(Rendering, ABeginningStandsAfterTheGenerationPrompt) {
  const std::string asked = render(R"([{"role":"user","content":"c"}])");
  EXPECT_EQ(render(R"([{"role":"user","content":"c"},{"role":"assistant","content":"Well, "}])", true),
            asked + "Well, ");
  EXPECT_EQ(render(R"([{"role":"user","content":"c"},
                       {"role":"assistant","content":[{"type":"text","text":"Well, "}]}])",
                   true),
            asked + "Well, ");
}

}  // namespace
}  // namespace ft::api::rendering_test
