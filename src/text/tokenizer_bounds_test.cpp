// Files of tokenizers from strangers: their steps may make texts long or take long, and each must end with a
// sentence.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "text/tokenizer.h"

namespace ft::tokenizer_bounds_test {
namespace {

using Json = nlohmann::json;

/// A tokenizer of bytes with these steps.
Json bytes_with(const Json& normalizer, const Json& pre_tokenizer, const Json& added = Json::array()) {
  Json vocabulary = Json::object();
  for (int byte = 0; byte < 256; ++byte) {
    char token[8];
    std::snprintf(token, sizeof token, "<0x%02X>", byte);
    vocabulary[token] = byte;
  }
  return {{"normalizer", normalizer},
          {"pre_tokenizer", pre_tokenizer},
          {"decoder", {{"type", "ByteFallback"}}},
          {"added_tokens", added},
          {"model",
           {{"type", "BPE"}, {"byte_fallback", true}, {"merges", Json::array()}, {"vocab", vocabulary}}}};
}

Json replace(const std::string& from, const std::string& to) {
  return {{"type", "Replace"}, {"pattern", {{"String", from}}}, {"content", to}};
}

Json split(const std::string& pattern) {
  return {{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}};
}

Json sequence(const std::string& parts, const Json& step, int count) {
  return {{"type", "Sequence"}, {parts, Json(static_cast<std::size_t>(count), step)}};
}

/// "" or the error of encoding `text`; errors of loading begin with "start: ".
std::string says(const Json& document, const std::string& text) {
  const auto tokenizer = Tokenizer::parse(document.dump(), "x");
  if (!tokenizer.ok()) return "start: " + tokenizer.error().message;
  const auto ids = tokenizer->encode(text, false);
  if (ids.ok()) return "";
  EXPECT_EQ(ids.error().code, Code::kInvalid) << ids.error().message;
  return ids.error().message;
}

void expect_says(const Json& document, const std::string& text, const std::string& wanted) {
  const std::string said = says(document, text);
  EXPECT_NE(said.find(wanted), std::string::npos) << document.dump().substr(0, 200) << "\n says: " << said;
}

TEST(TokenizerBounds, ANormalizerThatMakesTextsLongEndsTheRequest) {
  const Json large = bytes_with(replace("a", std::string(5'000'000, 'b')), nullptr);
  EXPECT_EQ(says(large, "none of it: xyz"), "");
  expect_says(large, std::string(100'000, 'a'), "makes the text longer than 804096 bytes");
  expect_says(large, "a", "makes the text longer");
  const Json doubling = bytes_with(sequence("normalizers", replace("a", "aa"), 60), nullptr);
  expect_says(doubling, std::string(100'000, 'a'), "makes the text longer");
  const Json nested = bytes_with(
      {{"type", "Sequence"},
       {"normalizers", {sequence("normalizers", replace("a", "aa"), 30), replace("a", "aaaaaaaaaa")}}},
      nullptr);
  expect_says(nested, "a", "makes the text longer");
  const Json prepend = bytes_with({{"type", "Prepend"}, {"prepend", std::string(1'000'000, 'x')}}, nullptr);
  expect_says(prepend, "some text", "makes the text longer");
  const Json pattern = bytes_with(
      {{"type", "Replace"}, {"pattern", {{"Regex", ""}}}, {"content", std::string(1000, 'x')}}, nullptr);
  expect_says(pattern, std::string(100'000, 'z'), "makes the text longer");
}

TEST(TokenizerBounds, PartsBetweenAddedTokensGrowTogether) {
  const Json added = {{{"id", 256},
                       {"content", "<m>"},
                       {"normalized", false},
                       {"special", true},
                       {"single_word", false},
                       {"lstrip", false},
                       {"rstrip", false}}};
  const Json prepend = bytes_with({{"type", "Prepend"}, {"prepend", std::string(300, 'x')}}, nullptr, added);
  std::string text;
  EXPECT_EQ(says(prepend, "a<m>b"), "");
  for (int i = 0; i < 1000; ++i) text += "a<m>";
  expect_says(prepend, text, "makes the text longer");
}

TEST(TokenizerBounds, AnAddedTokenIsNormalizedWithinTheSameLimit) {
  const Json added = {{{"id", 256},
                       {"content", "aaaa"},
                       {"normalized", true},
                       {"special", false},
                       {"single_word", false},
                       {"lstrip", false},
                       {"rstrip", false}}};
  expect_says(bytes_with(replace("a", std::string(5'000'000, 'b')), nullptr, added), "x",
              "start: x is not a usable tokenizer: its added token \"aaaa\": the normalizer");
}

TEST(TokenizerBounds, PreTokenizersThatMultiplyAreRefusedAtStart) {
  const Json byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}};
  const Json metaspace = {
      {"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", "always"}, {"split", true}};
  EXPECT_EQ(says(bytes_with(nullptr, byte_level), "some text"), "");
  EXPECT_EQ(says(bytes_with(nullptr, metaspace), "some text"), "");
  expect_says(bytes_with(nullptr, sequence("pretokenizers", byte_level, 30)), "x",
              "start: x is not a usable tokenizer: its pre-tokenizers may make a text 1073741824 times");
  expect_says(bytes_with(nullptr, sequence("pretokenizers", metaspace, 30)), "x", "start: ");
  expect_says(bytes_with(nullptr, sequence("pretokenizers", split("a"), 65)), "x", "more than 64");
}

TEST(TokenizerBounds, ACatastrophicPatternEndsTheRequest) {
  const std::string text = std::string(49'996, 'a') + "!bcx";
  for (const char* pattern : {"(a+)+$", "(a|aa)+$", "(?:a|a)*b", "(a*)*\\1b", "(?:a|a|a)*c"}) {
    const Json document = bytes_with(nullptr, split(pattern));
    EXPECT_EQ(says(document, "some text"), "") << pattern;
    expect_says(document, text, "takes more work on this text of 50000 bytes");
  }
  const Json normalizer = {{"type", "Replace"}, {"pattern", {{"Regex", "(a+)+$"}}}, {"content", ""}};
  expect_says(bytes_with(normalizer, nullptr), text, "takes more work");
}

TEST(TokenizerBounds, AQuadraticPatternEndsTheRequest) {
  // Each search reads the whole rest without a retry.
  expect_says(bytes_with(nullptr, split("(?=(?>.*))a|b")), std::string(400'000, 'a'), "takes more work");
}

TEST(TokenizerBounds, APatternThatCannotBeReadIsRefusedAtStart) {
  expect_says(bytes_with(nullptr, split("(")), "x", "start: x is not a usable tokenizer: the pattern");
  expect_says(bytes_with(nullptr, split(std::string(20'000, 'a'))), "x", "more than the limit of 16384");
  const std::string deep = std::string(4000, '(') + "a" + std::string(4000, ')');
  expect_says(bytes_with(nullptr, split(deep)), "x", "start: ");
  Json decoder = bytes_with(nullptr, nullptr);
  decoder["decoder"] = {
      {"type", "Sequence"},
      {"decoders",
       {{{"type", "ByteFallback"}}, {{"type", "Replace"}, {"pattern", {{"Regex", deep}}}, {"content", ""}}}}};
  expect_says(decoder, "x", "start: ");
}

TEST(TokenizerBounds, APostProcessorAddsTheTextOnce) {
  Json document = bytes_with(nullptr, nullptr);
  const Json text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  document["post_processor"] = {{"type", "TemplateProcessing"},
                                {"single", Json(std::size_t{50}, text)},
                                {"pair", {text, {{"Sequence", {{"id", "B"}, {"type_id", 0}}}}}},
                                {"special_tokens", Json::object()}};
  expect_says(document, "x", "start: x is not a usable tokenizer: its post-processor repeats the text");
  document["post_processor"]["single"] = {text};
  EXPECT_EQ(says(document, "x"), "");
}

TEST(TokenizerBounds, ALongAffixIsRefusedAtStart) {
  Json document = bytes_with(nullptr, nullptr);
  document["model"]["continuing_subword_prefix"] = std::string(1'000'000, '#');
  expect_says(document, "x",
              "start: x is not a usable tokenizer: continuing_subword_prefix has 1000000 bytes");
}

TEST(TokenizerBounds, AModelOfAnotherKindIsRefusedAtStart) {
  Json document = bytes_with(nullptr, nullptr);
  Json words = Json::array();
  for (int byte = 0; byte < 256; ++byte) words.push_back({"t" + std::to_string(byte), -1.0});
  document["model"] = {{"type", "Unigram"}, {"unk_id", 0}, {"vocab", words}, {"byte_fallback", true}};
  expect_says(document, "x", "start: x is not a usable tokenizer: its model is not BPE or WordLevel");
}

TEST(TokenizerBounds, StepsWithinTheLimitsGiveTheTokensThatTheySay) {
  const Json document = bytes_with(
      {{"type", "Sequence"}, {"normalizers", {replace(" ", "__"), replace("x", ""), {{"type", "NFC"}}}}},
      {{"type", "Sequence"},
       {"pretokenizers", {split("b+"), {{"type", "Digits"}, {"individual_digits", true}}}}});
  const auto tokenizer = Tokenizer::parse(document.dump(), "x");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  const auto ids = tokenizer->encode("a bbx1x2 ", false);
  ASSERT_TRUE(ids.ok()) << ids.error().message;
  EXPECT_EQ(tokenizer->decode(*ids, false), "a__bb12__");
}

}  // namespace
}  // namespace ft::tokenizer_bounds_test
