#include "server/ui_asset.h"

#include <gtest/gtest.h>

namespace ft::ui_asset_test {
namespace {

constexpr unsigned kMaxPageBytes = 600'000;

TEST(UiAsset, IsThereExactlyIfItWasBuilt) { EXPECT_EQ(ui_asset() != nullptr, FORETOKEN_HAS_PAGE == 1); }

TEST(UiAsset, IsOneGzipMemberOfAPageThatIsSmallEnough) {
  const UiAsset* page = ui_asset();
  if (page == nullptr) GTEST_SKIP() << "built without the page";
  const auto& bytes = page->gzip;
  ASSERT_GT(bytes.size(), 18U);
  EXPECT_EQ(bytes[0], 0x1f);
  EXPECT_EQ(bytes[1], 0x8b);
  EXPECT_EQ(bytes[2], 8);
  unsigned length = 0;  // the last four bytes: how long the page is, little-endian
  for (std::size_t i = 0; i < 4; ++i) length |= static_cast<unsigned>(bytes[bytes.size() - 4 + i]) << (8 * i);
  EXPECT_GT(length, 100'000U);
  EXPECT_LE(length, kMaxPageBytes);
}

TEST(UiAsset, PolicyAllowsOneScriptByItsHashAndNothingElseByDefault) {
  const UiAsset* page = ui_asset();
  if (page == nullptr) GTEST_SKIP() << "built without the page";
  EXPECT_TRUE(page->csp.starts_with("default-src 'none'; script-src 'sha256-")) << page->csp;
  EXPECT_NE(page->csp.find("connect-src 'self'"), std::string_view::npos);
  EXPECT_EQ(page->csp.find('\n'), std::string_view::npos);
  EXPECT_EQ(page->csp.find("script-src 'unsafe"), std::string_view::npos);
}

TEST(UiAsset, EtagStandsInQuotes) {
  const UiAsset* page = ui_asset();
  if (page == nullptr) GTEST_SKIP() << "built without the page";
  EXPECT_EQ(page->etag.size(), 34U);
  EXPECT_EQ(page->etag.front(), '"');
  EXPECT_EQ(page->etag.back(), '"');
}

}  // namespace
}  // namespace ft::ui_asset_test
