#include "server/routes.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <set>
#include <string>

#include "base/utf8.h"
#include "server/metrics_text.h"

namespace ft::server::routes_test {
namespace {

TEST(Routes, APathHasThePatternThatFitsIt) {
  EXPECT_EQ(route_of("/v1/responses").pattern, "/v1/responses");
  EXPECT_EQ(route_of("/v1/responses/input_tokens").pattern, "/v1/responses/input_tokens");
  EXPECT_EQ(route_of("/v1/responses/resp_1").pattern, "/v1/responses/{id}");
  EXPECT_EQ(route_of("/v1/responses/resp_1").id_in("/v1/responses/resp_1"), "resp_1");
  EXPECT_EQ(route_of("/v1/models/a/b").id_in("/v1/models/a/b"), "a/b");
  const std::string cancel = "/v1/chat/completions/x/cancel";
  EXPECT_EQ(route_of(cancel).id_in(cancel), "x");
  EXPECT_EQ(route_of("/v1/responses/resp_1/cancel").pattern, "/v1/responses/{id}/cancel");
  EXPECT_EQ(route_of("/v1/models/a/b/load").pattern, "/v1/models/{id}/load");
  for (const char* none :
       {"", "/v1", "/v1/responses/", "/v1/chat/completions//cancel", "other", "/v1/models/",
        "/v1/responses/resp_1/other", "/v1/responses/resp_1/a/cancel", "/v1/chat/completions/a/b/cancel"}) {
    EXPECT_EQ(route_of(none).pattern, "other") << none;
  }
}

TEST(Routes, EachHasOneThatAnswersItAndOnlyThePageAndHealthNeedNoKey) {
  for (const Route& route : all_routes()) {
    const int by_body = (route.decode != nullptr ? 1 : 0) + (route.reply != nullptr ? 1 : 0);
    EXPECT_EQ(by_body, route.endpoint == Endpoint::kByBody ? 1 : 0) << route.pattern;
    EXPECT_EQ(route.needs_key, route.pattern != "/" && route.pattern != "/health") << route.pattern;
    if (by_body > 0) {
      EXPECT_EQ(route.methods, "POST") << route.pattern;
    }
  }
}

TEST(Routes, AMethodIsAnsweredByItsWholeName) {
  EXPECT_TRUE(route_of("/v1/cache").answers("DELETE"));
  EXPECT_TRUE(route_of("/health").answers("HEAD"));
  EXPECT_FALSE(route_of("/health").answers("HEA"));
  EXPECT_FALSE(route_of("/health").answers("POST"));
  EXPECT_FALSE(route_of("/nothing").answers(""));
}

TEST(Routes, CountersHaveNoMoreSeriesThanRoutesWhateverIsAskedFor) {
  HttpCounters counters;
  for (int i = 0; i < 20'000; ++i) {
    for (const char* before : {"/v1/responses/", "/v1/models/", "/v1/chat/completions/", "/"}) {
      counters.answered(route_of(before + std::to_string(i)), 401);
    }
  }
  counters.answered(route_of("/v1/responses/\xFF\n\""), 401);
  const std::string page = metrics_text(EngineStatus(), CacheReport(), counters, {});
  EXPECT_TRUE(utf8_valid(page));
  std::size_t series = 0;
  constexpr std::string_view kSeries = "\nforetoken_http_answers_total{";
  for (std::size_t at = 0; (at = page.find(kSeries, at)) != std::string::npos; ++at) ++series;
  EXPECT_EQ(series, 3U) << "responses, models, other";
  EXPECT_LT(page.size(), std::size_t{64} << 10);
}

TEST(Metrics, OfTheProcessorOnlyWhatTheMachineTells) {
  const HttpCounters counters;
  const std::string silent = metrics_text(EngineStatus(), CacheReport(), counters, {});
  EXPECT_EQ(silent.find("foretoken_processor"), std::string::npos);
  const std::string page =
      metrics_text(EngineStatus(), CacheReport(), counters, {"powersave", 2500, 3800, 17});
  for (const char* line :
       {"\nforetoken_processor_hertz 2500000000\n", "\nforetoken_processor_max_hertz 3800000000\n",
        "\nforetoken_processor_governor{governor=\"powersave\"} 1\n",
        "\nforetoken_processor_throttled_total 17\n"})
    EXPECT_NE(page.find(line), std::string::npos) << line << page.substr(page.find("foretoken_processor"));
}

}  // namespace
}  // namespace ft::server::routes_test
