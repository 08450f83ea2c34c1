#include "api/image_parts.h"

#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "api/base64.h"

namespace ft::api::image_parts_test {
namespace {

std::string picture() {
  std::ifstream file("tests/golden/pictures/plain.png", std::ios::binary);
  EXPECT_TRUE(file.good());
  return {std::istreambuf_iterator<char>(file), {}};
}

Json messages_with(const std::string& role, Json part) {
  return Json::array({Json{{"role", role}, {"content", Json::array({std::move(part)})}}});
}

ImageInput input() {
  ImageInput input;
  input.problem.clear();
  input.settings.min_pixels = 2048;
  input.max_pixels = 65'536;
  input.image_token = 9;
  return input;
}

TEST(Base64, IsDecodedWithAndWithoutPadding) {
  for (const char* bytes : {"", "a", "ab", "abc", "\xff\x80"}) {
    std::string text = encode_base64(bytes);
    EXPECT_EQ(*decode_base64(text), bytes);
    while (text.ends_with('=')) text.pop_back();
    EXPECT_EQ(*decode_base64(text), bytes);
  }
  EXPECT_EQ(*decode_base64("YW\nJj"), "abc");
  EXPECT_EQ(*decode_base64(" YWI=\r\n"), "ab") << "as `base64` writes it";
  EXPECT_EQ(*decode_base64("-_-_"), *decode_base64("+/+/")) << "the alphabet of URLs";
  EXPECT_FALSE(decode_base64("a!bc").ok());
  EXPECT_FALSE(decode_base64("abcde").ok());
}

TEST(ImageParts, AnImageIsTakenOutOfItsMessage) {
  Json messages = messages_with("user", image_part(picture(), "file"));
  const auto given = take_images(messages);
  ASSERT_TRUE(given.ok());
  ASSERT_EQ(given->size(), 1U);
  EXPECT_EQ(messages[0]["content"][0], (Json{{"type", "image"}}));
  const auto pictures = load_images(input(), *given);
  ASSERT_TRUE(pictures.ok()) << pictures.error().message;
  EXPECT_EQ((*pictures)[0]->tokens(), 4);  // 24 x 16 grows to 64 x 64
}

TEST(ImageParts, OnlyUsersAndToolsShowImages) {
  for (const char* role : {"user", "tool"}) {
    Json messages = messages_with(role, image_part(picture(), "here"));
    EXPECT_TRUE(take_images(messages).ok()) << role;
  }
  for (const char* role : {"system", "assistant", "developer"}) {
    Json messages = messages_with(role, image_part(picture(), "here"));
    const auto given = take_images(messages);
    ASSERT_FALSE(given.ok()) << role;
    EXPECT_EQ(given.error().field, "here");
  }
}

TEST(ImageParts, WhatIsNotAPictureIsRefusedWithItsPlace) {
  const std::string cut = picture().substr(0, 60);
  for (const std::string& url :
       {std::string("data:image/png;base64,!!"), std::string("data:image/png,raw"),
        "data:image/png;base64," + encode_base64("hello"), "data:image/png;base64," + encode_base64(cut)}) {
    const auto loaded = load_images(input(), {{url, "messages[0].content[1]", false}});
    ASSERT_FALSE(loaded.ok()) << url;
    EXPECT_EQ(loaded.error().code, Code::kInvalid);
    EXPECT_EQ(loaded.error().field, "messages[0].content[1]");
    EXPECT_TRUE(loaded.error().message.starts_with("messages[0].content[1]: ")) << loaded.error().message;
  }
}

TEST(ImageParts, ARequestHasALimitedNumberOfImages) {
  const GivenImage one{"data:image/png;base64," + encode_base64(picture()), "x", false};
  EXPECT_TRUE(load_images(input(), std::vector<GivenImage>(kMaxImages, one)).ok());
  const auto more = load_images(input(), std::vector<GivenImage>(kMaxImages + 1, one));
  ASSERT_FALSE(more.ok());
  EXPECT_EQ(more.error().code, Code::kInvalid);
}

TEST(ImageParts, AModelWithoutATowerRefusesThem) {
  const auto refused = load_images({}, {{"data:,", "messages[2].content[0]", false}});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kUnsupported);
  EXPECT_NE(refused.error().message.find("text only"), std::string::npos);
}

TEST(ImageParts, AWebAddressIsRefusedWhereNothingIsFetched) {
  const auto refused = load_images(input(), {{"https://example.org/a.png", "here.url", false}});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kUnsupported);
  EXPECT_EQ(refused.error().field, "here.url");
  EXPECT_NE(refused.error().message.find("--image-urls"), std::string::npos);
}

TEST(ImageParts, AWebAddressIsFetchedWhereThatIsOn) {
  std::vector<std::string> asked;
  ImageInput fetching = input();
  fetching.fetch = [&](const std::string& url) -> Result<std::string> {
    asked.push_back(url);
    if (url.ends_with("gone")) return Error{Code::kInvalid, "its server answered with status 404"};
    return picture();
  };
  EXPECT_TRUE(load_images(fetching, {{"http://a.org/x", "here", false}}).ok());
  const auto gone = load_images(fetching, {{"http://a.org/gone", "here", false}});
  ASSERT_FALSE(gone.ok());
  EXPECT_EQ(gone.error().field, "here");
  EXPECT_NE(gone.error().message.find("status 404"), std::string::npos) << gone.error().message;
  EXPECT_EQ(asked, (std::vector<std::string>{"http://a.org/x", "http://a.org/gone"}));
}

TEST(ImageParts, ARequestHasALimitedNumberOfFetchedImages) {
  int fetches = 0;
  ImageInput fetching = input();
  fetching.fetch = [&](const std::string&) -> Result<std::string> { return ++fetches, picture(); };
  std::vector<GivenImage> many(kMaxFetchedImages, {"http://a.org/x", "here", false});
  EXPECT_TRUE(load_images(fetching, many).ok());
  many.push_back(many.front());
  EXPECT_FALSE(load_images(fetching, many).ok());
  EXPECT_EQ(fetches, 2 * static_cast<int>(kMaxFetchedImages));
}

TEST(ImagePrompt, EachPlaceholderBecomesTheTokensOfItsImage) {
  const auto pictures = load_images(input(), {{"data:;base64," + encode_base64(picture()), "a", false}});
  ASSERT_TRUE(pictures.ok());
  const Pictures twice = {(*pictures)[0], (*pictures)[0]};
  const auto placed = place_images(input(), {1, 9, 2, 9, 3}, twice);
  ASSERT_TRUE(placed.ok());
  EXPECT_EQ(placed->tokens, (std::vector<std::int32_t>{1, 9, 9, 9, 9, 2, 9, 9, 9, 9, 3}));
  EXPECT_EQ(placed->images[1].first, 6);
  EXPECT_TRUE(check_images(placed->images, placed->tokens.size()).ok());
  EXPECT_FALSE(check_images(placed->images, 10).ok()) << "an image at the end";
  EXPECT_FALSE(place_images(input(), {1, 9, 2}, twice).ok());
  const auto keys = content_keys(placed->tokens, placed->images);
  EXPECT_EQ(keys[1], keys[6]);  // the same picture
  EXPECT_LT(keys[1], 0);
  EXPECT_EQ(keys[5], 2);
}

}  // namespace
}  // namespace ft::api::image_parts_test
