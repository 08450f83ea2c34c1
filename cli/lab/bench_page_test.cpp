#include "cli/lab/bench_page.h"

#include <gtest/gtest.h>

namespace ft::cli {
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
  made.costs = {{0, {1, 1.1, 1.2}}, {4096, {2, 2.3, 2.5}}};
  made.limit_ms = 0.8;
  made.table.answer = {{"if (a < b)", true}, {" return;", false}};
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
  EXPECT_EQ(count(html, "prefers-color-scheme:dark"), 1);
}

TEST(BenchPage, DrawsEveryFigureAndEscapesTexts) {
  const std::string html = bench_page(page());
  EXPECT_EQ(count(html, "<b>"), 0);
  EXPECT_GE(count(html, "a &lt;b&gt; &amp; &quot;c&quot;"), 2);
  EXPECT_EQ(count(html, "<mark>if (a &lt; b)</mark> return;"), 1);
  EXPECT_EQ(count(html, "class=\"spread\""), 4) << "two drafters, two prompts";
  EXPECT_EQ(count(html, "<polyline"), 2);
  EXPECT_EQ(count(html, "class=\"limit\""), 1);
  EXPECT_EQ(count(html, "<svg"), count(html, "</svg>"));
}

TEST(BenchPage, OfNothingIsStillAPage) {
  const std::string html = bench_page({});
  EXPECT_TRUE(html.starts_with("<!doctype html>"));
  EXPECT_TRUE(html.ends_with("</html>\n"));
}

}  // namespace
}  // namespace ft::cli
