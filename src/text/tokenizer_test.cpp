#include "text/tokenizer.h"

#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

namespace ft::tokenizer_test {
namespace {

const std::string kModel = "assets/qwen3.5-tiny";

std::string file_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

const Tokenizer& tiny() {
  static const auto loaded = Tokenizer::load(kModel);
  EXPECT_TRUE(loaded.ok()) << (loaded.ok() ? "" : loaded.error().message);
  return *loaded;
}

std::vector<int32_t> ids_of(const std::string& numbers) {
  std::istringstream in(numbers);
  return {std::istream_iterator<int32_t>(in), {}};
}

TEST(Tokenizer, AgreesWithTransformersOnEveryGoldenText) {
  const auto golden = nlohmann::json::parse(file_text("tests/golden/text/tokenizer.json"));
  size_t encoded = 0;
  for (const auto& one : golden["cases"]) {
    const auto wanted = ids_of(one[1].get<std::string>());
    if (one[0].is_string()) {
      const auto text = one[0].get<std::string>();
      const auto ids = tiny().encode(text, false);
      ASSERT_TRUE(ids.ok()) << ids.error().message;
      ASSERT_EQ(*ids, wanted) << text;
      ++encoded;
    }
    const auto& decoded = one.size() > 2 ? one[2] : one[0];
    ASSERT_EQ(tiny().decode(wanted, false), decoded.get<std::string>()) << one[1];
  }
  EXPECT_GE(encoded, 2000u);
}

TEST(Tokenizer, FindsControlTokensByContent) {
  const auto end = tiny().id_of("<|im_end|>");
  ASSERT_TRUE(end.has_value());
  EXPECT_EQ(*end, 8180);
  EXPECT_TRUE(tiny().is_special(*end));
  EXPECT_EQ(tiny().token_bytes(*end), "<|im_end|>");
  const auto think = tiny().id_of("<think>");
  ASSERT_TRUE(think.has_value());
  EXPECT_TRUE(tiny().is_added(*think));
  EXPECT_FALSE(tiny().is_special(*think));
  EXPECT_FALSE(tiny().id_of("<no such token>").has_value());
  EXPECT_EQ(tiny().vocab_size(), 8192);
}

TEST(Tokenizer, LeavesOutSpecialTokensOnlyWhenAsked) {
  const std::vector<int32_t> ids = {*tiny().id_of("<think>"), *tiny().id_of("<|im_end|>")};
  EXPECT_EQ(tiny().decode(ids, false), "<think><|im_end|>");
  EXPECT_EQ(tiny().decode(ids, true), "<think>");
}

TEST(Tokenizer, GivesNothingForIdsWithoutAToken) {
  EXPECT_EQ(tiny().token_bytes(-1), "");
  EXPECT_EQ(tiny().token_bytes(8192), "");
  EXPECT_FALSE(tiny().is_special(1 << 30));
  EXPECT_EQ(tiny().decode(std::vector<int32_t>{-5, 9000}, false), "");
}

TEST(Tokenizer, RefusesTextThatIsNotUtf8) {
  const auto ids = tiny().encode("ab\xff", false);
  ASSERT_FALSE(ids.ok());
  EXPECT_EQ(ids.error().code, Code::kInvalid);
  EXPECT_EQ(ids.error().message, "the text to encode is not UTF-8 at byte 2");
}

TEST(Tokenizer, KnowsHowMuchTextATokenStandsForAtMost) {
  const auto shipped = Tokenizer::load("assets/qwen3.5-tiny");
  ASSERT_TRUE(shipped.ok());
  size_t longest = 0;
  for (int32_t id = 0; id < shipped->vocab_size(); ++id) {
    longest = std::max(longest, shipped->token_bytes(id).size());
  }
  EXPECT_EQ(shipped->text_per_token(), 4 * longest) << "NFC may make 7 bytes 2";
  const std::string greek = "\xE1\xBE\xBE\xCC\x88\xCC\x81", normal = "\xCE\x90";
  EXPECT_EQ(*shipped->encode(greek, false), *shipped->encode(normal, false));
  for (const std::string& text : {std::string(5000, ' '), std::string(5000, 'a'), std::string(5000, '\n')}) {
    EXPECT_GE(shipped->encode(text, false)->size() * shipped->text_per_token(), text.size());
  }
}

TEST(Tokenizer, WhereTextMayVanishThereIsNoSuchBound) {
  const auto bound = [](std::string_view normalizer, std::string_view added, std::string_view pieces) {
    std::string json = R"({"normalizer":)" + std::string(normalizer) + R"(,"pre_tokenizer":)" +
                       std::string(pieces) + R"(,"decoder":{"type":"ByteFallback"},"added_tokens":[)" +
                       std::string(added) +
                       R"(],"model":{"type":"BPE","byte_fallback":true,"merges":[],"vocab":{)";
    for (int byte = 0; byte < 256; ++byte) {
      char token[32];
      std::snprintf(token, sizeof token, R"(%s"<0x%02X>":%d)", byte == 0 ? "" : ",", byte, byte);
      json += token;
    }
    const auto made = Tokenizer::parse(json + "}}}", "test");
    EXPECT_TRUE(made.ok()) << made.error().message;
    return made.ok() ? made->text_per_token() : 0;
  };
  const std::string_view none = "null";
  EXPECT_EQ(bound(none, "", none), 1U);
  EXPECT_EQ(bound(R"({"type":"NFC"})", "", none), 4U);
  EXPECT_EQ(bound(R"({"type":"Replace","pattern":{"String":" "},"content":"\u2581"})", "", none), 1U);
  EXPECT_EQ(bound(R"({"type":"Strip","strip_left":true,"strip_right":true})", "", none), 0U);
  EXPECT_EQ(bound(R"({"type":"Replace","pattern":{"String":"aa"},"content":"a"})", "", none), 0U);
  EXPECT_EQ(bound(none, "", R"({"type":"Whitespace"})"), 0U);
  const std::string_view mask = R"({"id":256,"content":"<m>","single_word":false,"lstrip":true,)"
                                R"("rstrip":false,"normalized":false,"special":true})";
  EXPECT_EQ(bound(none, mask, none), 0U);
}

TEST(Tokenizer, RefusesTextBeyondItsLimit) {
  const auto ids = tiny().encode(std::string(kMaxEncodeBytes + 1, 'a'), false);
  ASSERT_FALSE(ids.ok());
  EXPECT_EQ(ids.error().code, Code::kTooLong);
}

TEST(Tokenizer, EncodesOneLongPieceWithoutQuadraticCost) {
  const auto ids = tiny().encode(std::string(200'000, 'a') + std::string(200'000, ' '), false);
  ASSERT_TRUE(ids.ok()) << ids.error().message;
  EXPECT_EQ(tiny().decode(*ids, false).size(), 400'000u);
}

TEST(Tokenizer, NamesAFolderWithoutATokenizer) {
  const auto loaded = Tokenizer::load("assets");
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().code, Code::kNotFound);
  EXPECT_NE(loaded.error().message.find("assets/tokenizer.json"), std::string::npos);
}

TEST(Tokenizer, RefusesEveryTruncationOfItsFile) {
  const std::string json = file_text(kModel + "/tokenizer.json");
  for (size_t size = 0; size < json.size() - 2; size += 1 + json.size() / 37) {
    const auto loaded = Tokenizer::parse(std::string_view(json).substr(0, size), "cut.json");
    ASSERT_FALSE(loaded.ok()) << size;
    EXPECT_EQ(loaded.error().code, Code::kCorrupt);
    EXPECT_EQ(loaded.error().message.rfind("cut.json is not a usable tokenizer", 0), 0u)
        << loaded.error().message;
  }
}

TEST(Tokenizer, RefusesFilesOfTheWrongShape) {
  auto code_of = [](const std::string& json) {
    const auto loaded = Tokenizer::parse(json, "x");
    return loaded.ok() ? std::string("accepted") : std::to_string(static_cast<int>(loaded.error().code));
  };
  const std::string corrupt = std::to_string(static_cast<int>(Code::kCorrupt));
  const std::string unsupported = std::to_string(static_cast<int>(Code::kUnsupported));
  EXPECT_EQ(code_of("[]"), unsupported);
  EXPECT_EQ(code_of("{}"), unsupported);
  EXPECT_EQ(code_of(R"({"decoder":{"type":"WordPiece"}})"), unsupported);
  EXPECT_EQ(code_of(R"({"decoder":{"type":"ByteLevel"}})"), corrupt);
  EXPECT_EQ(code_of(R"({"decoder":{"type":"ByteLevel"},"model":{"type":"BPE","vocab":3}})"), corrupt);
  EXPECT_EQ(code_of("\xff\xfe"), corrupt);
  EXPECT_EQ(code_of(std::string(100'000, '[')), corrupt);
  auto broken = nlohmann::json::parse(file_text(kModel + "/tokenizer.json"));
  broken["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "(";
  EXPECT_EQ(code_of(broken.dump()), corrupt);
}

}  // namespace
}  // namespace ft::tokenizer_test
