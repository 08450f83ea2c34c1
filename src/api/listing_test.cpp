#include "api/listing.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "api/fields.h"
#include "tests/api_events.h"

namespace ft::api::listing_test {
namespace {

/// A model with `aliases` additional names: m0 (its id), m1, m2, ...
ModelInfo named(int aliases) {
  ModelInfo model_info = test::model_info();
  model_info.id = "m0";
  for (int i = 1; i <= aliases; ++i) model_info.aliases.push_back(fmt::format("m{}", i));
  return model_info;
}

Json list(const ModelInfo& model_info, const Page& page, Dialect dialect = Dialect::kAnthropic) {
  const Result<HttpResponse> reply = models_reply(model_info, dialect, page);
  EXPECT_TRUE(reply.ok()) << reply.error().message;
  return Json::parse(reply->body);
}

std::string ids(const Json& listing) {
  std::string joined;
  for (const Json& model : listing["data"]) joined += model["id"].get<std::string>() + " ";
  return joined + (listing["has_more"] == true ? "..." : "");
}

std::string field_of(const ModelInfo& model_info, const Page& page) {
  const Result<HttpResponse> reply = models_reply(model_info, Dialect::kAnthropic, page);
  return reply.ok() ? "(none)" : reply.error().field;
}

TEST(Listing, PagesOfModelsAreCutForwardsAndBackwards) {
  const ModelInfo model_info = named(4);
  EXPECT_EQ(ids(list(model_info, {})), "m0 m1 m2 m3 m4 ");
  EXPECT_EQ(ids(list(model_info, {"2", "", ""})), "m0 m1 ...");
  EXPECT_EQ(ids(list(model_info, {"2", "m1", ""})), "m2 m3 ...");
  EXPECT_EQ(ids(list(model_info, {"2", "m2", ""})), "m3 m4 ");
  EXPECT_EQ(ids(list(model_info, {"2", "", "m4"})), "m2 m3 ...");
  EXPECT_EQ(ids(list(model_info, {"2", "", "m2"})), "m0 m1 ");
  const Json page = list(model_info, {"2", "m1", ""});
  EXPECT_EQ(page["first_id"], "m2");
  EXPECT_EQ(page["last_id"], "m3");
  const Json none = list(model_info, {"", "m4", ""});
  EXPECT_EQ(ids(none), "");
  EXPECT_TRUE(none["first_id"].is_null() && none["last_id"].is_null());
  EXPECT_EQ(ids(list(named(kDefaultModels), {})).substr(0, 6), "m0 m1 ");
  EXPECT_TRUE(list(named(kDefaultModels), {})["has_more"]);
  EXPECT_EQ(list(model_info, {"2", "", ""}, Dialect::kOpenAi)["data"].size(), 5U);
}

TEST(Listing, AWrongPageNamesItsField) {
  const ModelInfo model_info = named(1);
  for (const char* limit : {"0", "-1", "1001", "2x", "two", " 2", "99999999999999999999"}) {
    EXPECT_EQ(field_of(model_info, {limit, "", ""}), "limit") << limit;
  }
  EXPECT_EQ(field_of(model_info, {"1000", "", ""}), "(none)");
  EXPECT_EQ(field_of(model_info, {"", "m9", ""}), "after_id");
  EXPECT_EQ(field_of(model_info, {"", "", "m9"}), "before_id");
  EXPECT_EQ(field_of(model_info, {"", "m0", "m1"}), "before_id");
}

TEST(Listing, PropsSayWhyAGpuIsNotUsed) {
  ModelInfo model_info;
  const auto problem = [&model_info] {
    return nlohmann::json::parse(props_reply(model_info).body).at("backend_problem");
  };
  EXPECT_TRUE(problem().is_null());
  model_info.backend_problem = "--backend auto falls back to the CPU: it fails the self-test";
  EXPECT_EQ(problem(), model_info.backend_problem);
}

}  // namespace
}  // namespace ft::api::listing_test
