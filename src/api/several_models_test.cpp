#include "api/several_models.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/json.h"

namespace ft::api::several_models_test {
namespace {

using Json = nlohmann::ordered_json;

std::vector<ListedModel> two() {
  return {{"first", "ready", R"({"id":"other","object":"x","max_model_len":512,"modalities":["text"]})", 1000,
           2, 0, 1'700'000'000, ""},
          {"second", "unloaded", "", 0, 0, 3, 1'700'000'000, "it is broken"}};
}

TEST(SeveralModels, ABodyNamesItsModel) {
  EXPECT_EQ(*model_asked(R"({"model": "a/b", "messages": []})"), "a/b");
  EXPECT_EQ(*model_asked(R"({"messages": [{"model": "inner"}]})"), "") << "only its own member counts";
  EXPECT_EQ(*model_asked(R"({"model": null})"), "");
  for (const char* wrong : {"", "{", "[]", R"({"model": 7})"}) {
    const Result<std::string> asked = model_asked(wrong);
    ASSERT_FALSE(asked.ok()) << wrong;
    EXPECT_EQ(asked.error().code, Code::kInvalid) << wrong;
  }
}

TEST(SeveralModels, AListingHasTheFactsOfLoadedModelsUnderTheFrontsNames) {
  const Json list = read_json<Json>(models_reply(two(), Dialect::kOpenAi, {})->body);
  ASSERT_EQ(list["data"].size(), 2U);
  EXPECT_EQ(list["data"][0]["id"], "first");
  EXPECT_EQ(list["data"][0]["object"], "model");
  EXPECT_EQ(list["data"][0]["max_model_len"], 512);
  EXPECT_EQ(list["data"][0]["state"], "ready");
  EXPECT_EQ(list["data"][0]["memory"], 1000);
  EXPECT_EQ(list["data"][1]["state"], "unloaded");
  EXPECT_TRUE(list["data"][1]["memory"].is_null());
  EXPECT_EQ(list["data"][1]["problem"], "it is broken");
}

TEST(SeveralModels, AnthropicsListingHasPages) {
  const Json page = read_json<Json>(models_reply(two(), Dialect::kAnthropic, {"1", "", ""})->body);
  EXPECT_EQ(page["data"].size(), 1U);
  EXPECT_EQ(page["first_id"], "first");
  EXPECT_EQ(page["has_more"], true);
  EXPECT_FALSE(models_reply(two(), Dialect::kAnthropic, {"0", "", ""}).ok());
}

TEST(SeveralModels, HealthAndPropsAreKnownWithoutALoadedModel) {
  const Json health = read_json<Json>(health_reply(two()).body);
  EXPECT_EQ(health["status"], "ready");
  EXPECT_EQ(health["models"][1]["waiting"], 3);
  const Json props = read_json<Json>(props_reply(two()[1], "1.0").body);
  EXPECT_EQ(props["model"], "second");
  EXPECT_TRUE(props["context"].is_null());
}

}  // namespace
}  // namespace ft::api::several_models_test
