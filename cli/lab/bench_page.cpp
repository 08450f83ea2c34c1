#include "cli/lab/bench_page.h"

#include <algorithm>
#include <fmt/format.h>
#include <span>

namespace ft::cli {
namespace {

constexpr int kWidth = 640, kRow = 22, kLabel = 110;

std::string escaped(std::string_view text) {
  std::string safe;
  for (const char letter : text) {
    switch (letter) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '"':
        safe += "&quot;";
        break;
      default:
        safe += letter;
    }
  }
  return safe;
}

std::string drawing(int height, const std::string& shapes, std::string_view what) {
  return fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">{}</svg>\n", kWidth, height,
                     escaped(what), shapes);
}

std::string text_at(double x, double y, std::string_view text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>", x, y, escaped(text));
}

/// The median as a bar, the lowest and the highest as a line through its end.
std::string speed_bar(int row, std::string_view label, std::vector<double> speeds, double most) {
  std::ranges::sort(speeds);
  const double scale = (kWidth - kLabel - 70) / most;
  const double y = row * kRow;
  const double median = quantile(speeds, 0.5);
  std::string shapes = text_at(0, y + 15, label);
  shapes += fmt::format("<rect class=\"bar\" x=\"{}\" y=\"{}\" width=\"{:.1f}\" height=\"14\"/>", kLabel,
                        y + 4, median * scale);
  shapes += fmt::format("<line class=\"spread\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{}\" y2=\"{}\"/>",
                        kLabel + speeds.front() * scale, kLabel + speeds.back() * scale, y + 11, y + 11);
  return shapes + text_at(kLabel + speeds.back() * scale + 6, y + 15, fmt::format("{:.0f}", median));
}

std::string speeds(const DrafterTable& table) {
  std::string page = "<h2>Tokens per second by drafter and prompt</h2>\n";
  if (table.drafters.empty()) return page;
  for (std::size_t prompt = 0; prompt < table.drafters.front().prompts.size(); ++prompt) {
    double most = 1;
    for (const DrafterFigures& drafter : table.drafters)
      for (const double speed : drafter.prompts[prompt].tokens_per_second) most = std::max(most, speed);
    std::string shapes;
    int row = 0;
    for (const DrafterFigures& drafter : table.drafters)
      shapes += speed_bar(row++, drafter.name, drafter.prompts[prompt].tokens_per_second, most);
    const std::string& name = table.drafters.front().prompts[prompt].name;
    page += fmt::format("<h3>{}</h3>\n", escaped(name)) +
            drawing(row * kRow + 4, shapes, "tokens per second, " + name);
  }
  return page;
}

std::string acceptance(const DrafterTable& table) {
  std::string page =
      "<h2>Accepted by position in the draft</h2>\n<table><tr><th>drafter</th><th>tokens a round</th>"
      "<th>share of drafts accepted at position 1, 2, ...</th><th>same tokens</th></tr>\n";
  for (const DrafterFigures& drafter : table.drafters) {
    std::string bars;
    int at = 0;
    for (const double share : acceptance_by_position(drafter.speculation)) {
      bars += fmt::format(
          "<rect class=\"bar\" x=\"{}\" y=\"{:.1f}\" width=\"12\" height=\"{:.1f}\"><title>{}: "
          "{:.2f}</title></rect>",
          at * 15, 40 - 40 * share, 40 * share, at + 1, share);
      ++at;
    }
    page += fmt::format(
        "<tr><td>{}</td><td>{:.2f}</td><td><svg class=\"small\" viewBox=\"0 0 240 40\" role=\"img\" "
        "aria-label=\"acceptance of {}\">{}</svg></td><td>{}</td></tr>\n",
        escaped(drafter.name), tokens_per_round(drafter.speculation), escaped(drafter.name), bars,
        drafter.identical ? "yes" : "NO");
  }
  return page + "</table>\n";
}

std::string polyline(std::span<const double> ms, double most, int height) {
  std::string points;
  for (std::size_t i = 0; i < ms.size(); ++i) {
    points += fmt::format("{:.1f},{:.1f} ", 40 + static_cast<double>(i) * (kWidth - 160) / 15,
                          height - 24 - ms[i] / most * (height - 40));
  }
  return fmt::format("<polyline class=\"cost\" points=\"{}\"/>", points);
}

std::string costs(const BenchPage& page) {
  constexpr int kHeight = 260;
  if (page.costs.empty()) return "";
  double most = page.limit_ms;
  for (const RoundCosts& costs : page.costs)
    for (const double ms : costs.ms) most = std::max(most, ms);
  std::string shapes;
  for (const RoundCosts& costs : page.costs) {
    shapes += polyline(costs.ms, most, kHeight);
    shapes += text_at(kWidth - 112, kHeight - 20 - costs.ms.back() / most * (kHeight - 40),
                      fmt::format("{:.2f} ms, {} tokens", costs.ms.back(), costs.context));
  }
  if (page.limit_ms > 0) {
    const double y = kHeight - 24 - page.limit_ms / most * (kHeight - 40);
    shapes += fmt::format("<line class=\"limit\" x1=\"40\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>",
                          kWidth - 120, y, y);
    shapes += text_at(44, y + 14, fmt::format("reading the weights once: {:.2f} ms", page.limit_ms));
  }
  for (const int rows : {1, 4, 8, 12, 16})
    shapes += text_at(36 + (rows - 1) * (kWidth - 160) / 15.0, kHeight - 6, std::to_string(rows));
  return "<h2>Cost of a round by its rows and the context</h2>\n" +
         drawing(kHeight, shapes, "milliseconds by rows");
}

std::string answer(const BenchPage& page) {
  if (page.table.answer.empty()) return "";
  std::string text = "<h2>One answer: accepted drafts are marked</h2>\n<pre>";
  for (const auto& [piece, drafted] : page.table.answer)
    text += drafted ? "<mark>" + escaped(piece) + "</mark>" : escaped(piece);
  return text + "</pre>\n";
}

constexpr std::string_view kStyle =
    ":root{color-scheme:light dark;--ink:#222;--paper:#fff;--bar:#3b6ea5;--soft:#bbb;--mark:#cfe3c8}"
    "@media(prefers-color-scheme:dark){:root{--ink:#ddd;--paper:#181a1c;--bar:#6fa3d8;--soft:#666;--mark:#"
    "2f4a2b}}"
    "body{font:15px/1.5 system-ui,sans-serif;max-width:44rem;margin:2rem auto;padding:0 "
    "1rem;color:var(--ink);"
    "background:var(--paper)}svg{width:100%;height:auto}svg.small{width:240px}text{font-size:12px;fill:var(--"
    "ink)}"
    ".bar{fill:var(--bar)}.spread,.limit{stroke:var(--ink);stroke-width:1.5}.limit{stroke-dasharray:5 4}"
    ".cost{fill:none;stroke:var(--bar);stroke-width:2}td,th{text-align:left;padding:.2rem .8rem .2rem 0}"
    "mark{background:var(--mark);color:inherit}pre{white-space:pre-wrap;border:1px solid "
    "var(--soft);padding:.8rem}";

}  // namespace

std::string bench_page(const BenchPage& page) {
  return fmt::format(
             "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
             "content=\"width=device-width\"><title>foretoken bench: "
             "{0}</title>\n<style>{1}</style></head>\n<body>"
             "<h1>{0}</h1>\n<p>{2}. A bar is the median of its answers, the line from the slowest to the "
             "fastest.</p>\n",
             escaped(page.table.model), kStyle, escaped(page.table.backend)) +
         speeds(page.table) + acceptance(page.table) + costs(page) + answer(page) + "</body></html>\n";
}

}  // namespace ft::cli
