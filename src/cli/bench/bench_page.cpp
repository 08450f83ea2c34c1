#include "cli/bench/bench_page.h"

#include <fmt/format.h>

#include "base/text_layout.h"
#include "cli/bench/bench_charts.h"
#include "speculation/report_figures.h"

namespace ft::cli {
namespace {

constexpr std::string_view kLight =
    "--ink:#1f2328;--soft:#6e7781;--paper:#fff;--grid:#d8dee4;--c0:#8c959f;--c1:#0b6fb8;--c2:#c4560a;--c3:"
    "#2a8f5b;--c4:#a8469e;--c5:#b08800;--c6:#5b63c9;--c7:#7a5a3a";
constexpr std::string_view kDark =
    "--ink:#e6edf3;--soft:#9198a1;--paper:#0d1117;--grid:#30363d;--c0:#7d8590;--c1:#5db0f0;--c2:#f0945a;--c3:"
    "#63c995;--c4:#d68acf;--c5:#e0bf4a;--c6:#9aa0f5;--c7:#c4a482";
constexpr int kColours = 8;
constexpr std::string_view kShapes =
    "text{font:12px system-ui,sans-serif;fill:var(--ink)}.end{text-anchor:end}.middle{text-anchor:middle}"
    ".strong{font-weight:600}.soft{fill:var(--soft)}.title{font-size:15px;font-weight:600}"
    ".code{font:11px ui-monospace,monospace;white-space:pre}"
    ".grid{stroke:var(--grid)}.spread{stroke:var(--ink);stroke-width:1.5}"
    ".limit{stroke:var(--soft);stroke-dasharray:5 4}polyline{fill:none!important;stroke-width:2}"
    ".cost{stroke:var(--c1)}.other{fill:var(--soft)}.tint{opacity:.35}";
constexpr std::string_view kText =
    "body{font:15px/1.5 system-ui,sans-serif;max-width:46rem;margin:2rem auto;padding:0 1rem;"
    "color:var(--ink);background:var(--paper)}svg{width:100%;height:auto}"
    "td,th{text-align:left;padding:.2rem .8rem .2rem 0}td.number{text-align:right}.note{color:var(--soft)}"
    ".answer{white-space:pre-wrap;border:1px solid var(--grid);padding:.8rem;font:13px/1.6 "
    "ui-monospace,monospace}"
    ".answer span{border-radius:2px}";

std::string style(bool picture) {
  std::string text =
      fmt::format("{}{{{}}}@media(prefers-color-scheme:dark){{{}{{{}}}}}", ":root", kLight, ":root", kDark);
  for (int i = 0; i < kColours; ++i)
    text += fmt::format(".d{0}{{fill:var(--c{0});stroke:var(--c{0})}}rect.d{0}{{stroke:none}}", i);
  text += kShapes;
  if (picture) return text;
  text = ":root{color-scheme:light dark}" + text + std::string(kText);
  for (int i = 0; i < kColours; ++i)
    text += fmt::format(".answer .d{0}{{background:color-mix(in srgb,var(--c{0}) 35%,transparent)}}", i);
  return text;
}

std::string drawing(const Chart& chart) {
  if (chart.title.empty()) return "";
  return fmt::format(
      "<h2>{0}</h2>\n<p class=\"note\">{1}</p>\n"
      "<svg viewBox=\"0 0 {2} {3}\" role=\"img\" aria-label=\"{0}\">{4}</svg>\n",
      escaped(chart.title), escaped(chart.note), kChartWidth, chart.height, chart.shapes);
}

/// The figures of the charts as numbers.
std::string numbers(const DrafterTable& table) {
  std::string page =
      "<h2>All prompts together</h2>\n<table><tr><th>drafter</th><th>tokens/s</th><th>ratio</th><th>tokens a "
      "round</th><th>first token</th><th>accepted by position</th><th>same tokens</th></tr>\n";
  const double plain = table.drafters.empty() ? 0 : table.drafters.front().speed.tokens_per_second();
  for (const DrafterFigures& drafter : table.drafters) {
    std::string shares;
    for (const double share : acceptance_by_position(drafter.speculation))
      shares += fmt::format("{}{:.2f}", shares.empty() ? "" : " ", share);
    const double speed = drafter.speed.tokens_per_second();
    page += fmt::format(
        "<tr><td>{}</td><td class=\"number\">{:.1f}</td><td class=\"number\">{:.2f} x</td><td "
        "class=\"number\">{:.2f}</td><td class=\"number\">{:.1f} ms</td><td>{}</td><td>{}</td></tr>\n",
        escaped(drafter.name), speed, plain > 0 ? speed / plain : 0, tokens_per_round(drafter.speculation),
        drafter.first_token_ms, shares, drafter.identical ? "yes" : "NO");
  }
  return page + "</table>\n";
}

/// Unlike the picture, a page can wrap lines itself.
std::string answer(const DrafterTable& table) {
  if (table.answer.empty()) return "";
  const Chart chart = answer_chart(table);
  std::string text = fmt::format(
      "<h2>{}</h2>\n<p class=\"note\">{}</p>\n<svg viewBox=\"0 0 {} 18\" role=\"img\" "
      "aria-label=\"colours of the drafters\">{}</svg>\n<div class=\"answer\">",
      escaped(chart.title), escaped(chart.note), kChartWidth, legend(table, 2));
  for (const AnswerPiece& piece : table.answer) {
    if (piece.drafted_by.empty()) {
      text += escaped(piece.text);
    } else {
      text += fmt::format("<span class=\"{}\" title=\"{}\">{}</span>", colour_of(table, piece.drafted_by),
                          escaped(piece.drafted_by), escaped(piece.text));
    }
  }
  return text + "</div>\n";
}

}  // namespace

std::string bench_page(const BenchPage& page) {
  const DrafterTable& table = page.table;
  return fmt::format(
             "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
             "content=\"width=device-width\"><title>foretoken bench: {0}</title>\n"
             "<style>{1}</style></head>\n<body><h1>{0}</h1>\n<p>{2}</p>\n",
             escaped(table.model), style(false), escaped(table.backend)) +
         numbers(table) + drawing(speed_chart(table)) + drawing(acceptance_chart(table)) +
         drawing(cost_chart(page.costs)) + answer(table) + "</body></html>\n";
}

std::string bench_picture(const BenchPage& page) {
  constexpr int kMargin = 16, kTitle = 26;
  const DrafterTable& table = page.table;
  std::string shapes = text_at(0, 16, table.model, "title") + text_at(0, 34, table.backend, "soft");
  int y = 56;
  for (const Chart& chart :
       {speed_chart(table), acceptance_chart(table), cost_chart(page.costs), answer_chart(table)}) {
    if (chart.title.empty()) continue;
    shapes += text_at(0, y + 14, chart.title, "title");
    y += kTitle;
    shapes += fmt::format("<g transform=\"translate(0 {})\">{}</g>", y, chart.shapes);
    y += chart.height + 20;
  }
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
      "height=\"{1}\" role=\"img\" aria-label=\"foretoken bench: {2}\"><style>{3}</style>"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"var(--paper)\"/>"
      "<g transform=\"translate({4} {4})\">{5}</g></svg>\n",
      kChartWidth + 2 * kMargin, y + 2 * kMargin, escaped(table.model), style(true), kMargin, shapes);
}

}  // namespace ft::cli
