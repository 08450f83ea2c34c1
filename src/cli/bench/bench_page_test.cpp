#include "cli/bench/bench_page.h"

#include <cstring>
#include <gtest/gtest.h>

namespace ft::cli::bench_page_test {
namespace {

BenchPage page() {
  BenchPage made;
  made.table.model = "a <b> & \"c\"", made.table.backend = "cpu";
  for (const char* name : {"none", "mtp"}) {
    DrafterFigures figures;
    figures.name = name;
    figures.prompts = {{"code", {100, 120, 110}}, {"prose", {90, 80}}};
    figures.speculation.drafted_at = {4, 4}, figures.speculation.accepted_at = {3, 1};
    made.table.drafters.push_back(figures);
  }
  made.costs = {{256, {{1, 1}, {2, 1.1}, {4, 1.2}}, 0.8}, {4096, {{1, 2}, {2, 2.3}, {4, 2.5}}, 1.7}};
  made.table.answer = {{"if (a < b)", "mtp"}, {"\n return;", ""}, {"}", "grammar"}};
  return made;
}

int count(const std::string& text, const std::string& what) {
  int found = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

TEST(BenchPage, NeedsNothingButItself) {
  const std::string html = bench_page(page());
  for (const char* word : {"<script", "http:", "https:", "src=", "href=", "@import", "url("})
    EXPECT_EQ(count(html, word), 0) << word;
  for (const char* word : {"<script", "https:", "src=", "href=", "@import", "url("})
    EXPECT_EQ(count(bench_picture(page()), word), 0) << word;
  EXPECT_EQ(count(html, "prefers-color-scheme:dark"), 1);
}

TEST(BenchPage, DrawsEveryFigureAndEscapesTexts) {
  const std::string html = bench_page(page());
  EXPECT_EQ(count(html, "<b>"), 0);
  EXPECT_GE(count(html, "a &lt;b&gt; &amp; &quot;c&quot;"), 2);
  EXPECT_EQ(count(html, "<span class=\"d1\" title=\"mtp\">if (a &lt; b)</span>\n return;"), 1);
  EXPECT_EQ(count(html, "<span class=\"other\" title=\"grammar\">}</span>"), 1);
  EXPECT_EQ(count(html, "class=\"spread\""), 4) << "two drafters, two prompts";
  EXPECT_EQ(count(html, "<polyline"), 2 + 2) << "acceptance of two drafters, costs of two contexts";
  EXPECT_EQ(count(html, "class=\"limit\""), 2);
  EXPECT_EQ(count(html, "<svg"), count(html, "</svg>"));
}

TEST(BenchPage, ThePictureHoldsEveryChartInItsHeight) {
  const std::string svg = bench_picture(page());
  EXPECT_TRUE(svg.starts_with("<svg xmlns="));
  EXPECT_EQ(count(svg, "<g transform=\"translate(0 "), 4) << "speeds, acceptance, costs, the answer";
  EXPECT_EQ(count(svg, "<svg"), 1);
  EXPECT_EQ(count(svg, "textLength"), 3) << "three pieces on two lines";
  EXPECT_EQ(count(svg, "&lt;b&gt;"), 2);
  EXPECT_EQ(count(svg, "<b>"), 0);
}

/// A letter of the picture's 12 pixels is seldom wider than 7 on average.
TEST(BenchPage, LabelsBesideTheCostsFitIntoThePicture) {
  BenchPage slow = page();
  slow.costs = {{8192, {{1, 1000}, {16, 2345.678}}, 999.999}};
  const std::string svg = bench_picture(slow);
  int labels = 0;
  for (const char* text : {"8192 tokens: 2345.68 ms", "limit 1000.00 ms", "rows"}) {
    const std::size_t end = svg.find(std::string(">") + text + "</text>");
    ASSERT_NE(end, std::string::npos) << text;
    const std::size_t from = svg.rfind("x=\"", end) + 3;
    EXPECT_LE(std::stod(svg.substr(from)) + 7.0 * static_cast<double>(std::strlen(text)), 720) << text;
    ++labels;
  }
  EXPECT_EQ(labels, 3);
}

TEST(BenchPage, ControlCharactersOfATokenAreLeftOut) {
  BenchPage odd = page();
  odd.table.answer = {{std::string("a\x01\x1b[0m", 6), "mtp"}};
  EXPECT_EQ(count(bench_picture(odd), ">a[0m<"), 1);
}

TEST(BenchPage, OfNothingIsStillAPage) {
  const std::string html = bench_page({});
  EXPECT_TRUE(html.starts_with("<!doctype html>"));
  EXPECT_TRUE(html.ends_with("</html>\n"));
}

}  // namespace
}  // namespace ft::cli::bench_page_test
