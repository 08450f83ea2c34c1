#include "lab/bench_scaling.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/quantile.h"
#include "base/text_layout.h"

namespace ft {
namespace {

using Table = std::vector<std::vector<std::string>>;

/// The median; empty if nothing was measured.
std::string figure(const std::vector<double>& values, int digits) {
  return values.empty() ? "" : fmt::format("{:.{}f}", quantile(values, 0.5), digits);
}

Table scaling_table(std::span<const DecodeReport> reports) {
  Table table = {{"threads", "tokens/s", "share of the limit", "GB/s", "prompt/s", "4 rows", "8 rows"}};
  for (const ForcedResult& forced : reports.front().figures.forced)
    table[0].push_back(fmt::format("at {}", fmt::join(forced.schedule, ",")));
  for (const DecodeReport& report : reports) {
    const DecodeFigures& figures = report.figures;
    table.push_back({std::to_string(report.threads), figure(figures.plain_per_second, 1),
                     figure(figures.limit_shares, 2), figure(figures.bandwidths, 1),
                     figure(figures.prompt_per_second, 0), figure(figures.round_cost[4], 2),
                     figure(figures.round_cost[8], 2)});
    for (const ForcedResult& forced : figures.forced) table.back().push_back(figure(forced.ratios, 2));
  }
  return table;
}

constexpr const char* kUnits = "Rows in plain steps; answers at the given acceptance as a ratio to plain.";

std::string title(std::span<const DecodeReport> reports) {
  const DecodeReport& first = reports.front();
  const std::string backend = first.backend.substr(0, first.backend.rfind(", "));  // without its threads
  return fmt::format("{} on {}, {} prompt tokens", first.model, backend, first.prompt_tokens);
}

}  // namespace

std::string scaling_text(std::span<const DecodeReport> reports) {
  return fmt::format("{}\n\n{}{}\n", title(reports), table_text(scaling_table(reports)), kUnits);
}

std::string scaling_page(std::span<const DecodeReport> reports) {
  std::string rows;
  for (const std::vector<std::string>& row : scaling_table(reports)) {
    const char* cell = rows.empty() ? "th" : "td";
    rows += "<tr>";
    for (const std::string& text : row) rows += fmt::format("<{0}>{1}</{0}>", cell, escaped(text));
    rows += "</tr>\n";
  }
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>foretoken bench "
      "decode</title>\n"
      "<style>:root{{color-scheme:light dark}}body{{font:15px/1.5 system-ui,sans-serif;margin:2rem}}"
      "td,th{{text-align:right;padding:.2rem .8rem}}</style></head>\n"
      "<body><h1>Threads</h1>\n<p>{}</p>\n<table>{}</table>\n<p>{}</p></body></html>\n",
      escaped(title(reports)), rows, kUnits);
}

std::string scaling_json(std::span<const DecodeReport> reports) {
  std::string list;
  for (const DecodeReport& report : reports) list += (list.empty() ? "" : ",") + decode_json(report);
  return "{\"by_threads\":[" + list + "]}";
}

}  // namespace ft
