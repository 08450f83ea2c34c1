#include "lab/bench_decode_report.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/quantile.h"
#include "base/text_layout.h"

namespace ft {
namespace {

using Json = nlohmann::ordered_json;

double median(const std::vector<double>& values) { return quantile(values, 0.5); }

std::string spread(const std::vector<double>& values, int digits) {
  return fmt::format("{:.{}f} ({:.{}f} to {:.{}f})", median(values), digits, quantile(values, 0), digits,
                     quantile(values, 1), digits);
}

Json rounded(double value) { return std::round(value * 1e4) / 1e4; }

std::string schedule_text(const std::vector<double>& schedule) {
  return fmt::format("{}", fmt::join(schedule, ","));
}

std::string depth_text(int depth) { return depth < 0 ? "auto" : std::to_string(depth); }

std::string cost_rows(const DecodeFigures& figures) {
  std::vector<std::vector<std::string>> rows = {
      {"rows"}, {"round cost"}, {fmt::format("with {} drafts", figures.network)}};
  if (figures.network.empty()) rows.pop_back();
  for (std::size_t n = 1; n <= DecodePlan::kRows; ++n) {
    if (figures.round_cost[n].empty()) continue;
    rows[0].push_back(std::to_string(n));
    rows[1].push_back(fmt::format("{:.2f}", median(figures.round_cost[n])));
    if (figures.network.empty()) continue;
    const auto& drafted = figures.drafted_cost[n];
    rows[2].push_back(drafted.empty() ? "" : fmt::format("{:.2f}", median(drafted)));
  }
  return table_text(rows);
}

std::string forced_rows(const DecodeFigures& figures) {
  std::vector<std::vector<std::string>> rows = {
      {"accepted", "depth", "tokens/s", "ratio to plain", "tokens per round", "drafted per round"}};
  for (const ForcedResult& forced : figures.forced) {
    const auto rounds = static_cast<double>(std::max<std::int64_t>(1, forced.rounds));
    rows.push_back({schedule_text(forced.schedule), depth_text(forced.depth),
                    fmt::format("{:.1f}", median(forced.tokens_per_second)), spread(forced.ratios, 2),
                    fmt::format("{:.2f}", static_cast<double>(forced.emitted) / rounds),
                    fmt::format("{:.2f}", static_cast<double>(forced.drafted) / rounds)});
  }
  return table_text(rows);
}

Json profile_json(const std::vector<ProfileTable>& tables) {
  Json list = Json::array();
  for (const ProfileTable& table : tables) {
    Json lines = Json::array();
    for (const ProfileLine& line : table.lines) {
      lines.push_back({{"instruction", line.label},
                       {"calls", line.calls},
                       {"ms", rounded(line.ms)},
                       {"share", rounded(line.ms / table.step_ms)},
                       {"bytes", line.bytes},
                       {"gb_per_s", rounded(line.ms > 0 ? line.bytes / line.ms * 1e-6 : 0)},
                       {"barrier_ms", rounded(line.barrier_ms)}});
    }
    list.push_back({{"program", table.executable == 0 ? "model" : "head"},
                    {"rows", table.rows},
                    {"steps", table.steps},
                    {"ms", rounded(table.step_ms)},
                    {"instructions", std::move(lines)}});
  }
  return list;
}

Json costs_json(const std::array<std::vector<double>, DecodePlan::kRows + 1>& costs) {
  Json json = Json::object();
  for (std::size_t n = 1; n <= DecodePlan::kRows; ++n) {
    if (!costs[n].empty()) json[std::to_string(n)] = rounded(median(costs[n]));
  }
  return json;
}

}  // namespace

std::string table_title(const ProfileTable& table) {
  const std::string program =
      table.executable == 0 ? "model" : fmt::format("program {} of the drafters", table.executable);
  return fmt::format("{}, {} row{}, {} steps", program, table.rows, table.rows == 1 ? "" : "s", table.steps);
}

std::string decode_text(const DecodeReport& report) {
  const DecodeFigures& figures = report.figures;
  const auto size = [](std::int64_t bytes) { return bytes_text(static_cast<double>(bytes)); };
  std::string text = fmt::format("{} on {}\n\n", report.model, report.backend);
  text += table_text(
      {{"read bandwidth", spread(figures.bandwidths, 1) + " GB/s"},
       {"plain", fmt::format("{} tokens/s at {} to {} tokens of context", spread(figures.plain_per_second, 2),
                             figures.context_first, figures.context_last)},
       {"share of the limit", fmt::format("{}; {} per token", spread(figures.limit_shares, 2),
                                          bytes_text(figures.bytes_per_token))},
       {"prompt",
        fmt::format("{} tokens/s ({} tokens)", spread(figures.prompt_per_second, 1), report.prompt_tokens)},
       {"memory", fmt::format("{} packed weights, {} state, {} resident", size(report.packed_bytes),
                              size(report.state_bytes), size(report.resident_bytes))},
       {"draft vocabulary", report.drafted_among.empty() ? "none" : report.drafted_among},
       {"load", fmt::format("{:.2f} s, packing {:.2f} s", report.load_ms * 1e-3, report.pack_ms * 1e-3)}});
  if (!figures.host_us.empty()) {
    text += fmt::format("outside the backend  {:.1f} us per round, {:.2f} % of it\n", median(figures.host_us),
                        100 * median(figures.host_shares));
  }
  if (!figures.rejected_cost.empty()) {
    text += "\nCost of a round in plain steps, all drafts accepted:\n" + cost_rows(figures);
    text += fmt::format("4 rows, all drafts rejected: {}\n", spread(figures.rejected_cost, 2));
  }
  if (!figures.forced.empty()) text += "\nAt the given acceptance:\n" + forced_rows(figures);
  for (const ProfileTable& table : report.profile) {
    text += "\n" + table_title(table) + ":\n" + profile_text(table);
  }
  return text;
}

std::string decode_json(const DecodeReport& report) {
  const DecodeFigures& figures = report.figures;
  Json forced = Json::array();
  for (const ForcedResult& result : figures.forced) {
    forced.push_back({{"schedule", result.schedule},
                      {"depth", result.depth < 0 ? Json("auto") : Json(result.depth)},
                      {"tokens_per_second", rounded(median(result.tokens_per_second))},
                      {"ratio", rounded(median(result.ratios))},
                      {"ratio_low", rounded(quantile(result.ratios, 0))},
                      {"ratio_high", rounded(quantile(result.ratios, 1))},
                      {"rounds", result.rounds},
                      {"emitted", result.emitted},
                      {"drafted", result.drafted}});
  }
  Json json{{"model", report.model},
            {"backend", report.backend},
            {"threads", report.threads},
            {"draft_vocabulary", report.draft_vocabulary},
            {"context", {figures.context_first, figures.context_last}},
            {"read_bandwidth_gb_s", rounded(median(figures.bandwidths))},
            {"bytes_per_token", figures.bytes_per_token},
            {"plain_tokens_per_second", rounded(median(figures.plain_per_second))},
            {"plain_tokens_per_second_high", rounded(quantile(figures.plain_per_second, 1))},
            {"limit_share", rounded(median(figures.limit_shares))},
            {"prompt_tokens", report.prompt_tokens},
            {"prompt_tokens_per_second", rounded(median(figures.prompt_per_second))},
            {"network", figures.network},
            {"round_cost", costs_json(figures.round_cost)},
            {"round_cost_drafting", costs_json(figures.drafted_cost)},
            {"rejected_cost_4", rounded(median(figures.rejected_cost))},
            {"forced", std::move(forced)},
            {"host_us_per_round", rounded(median(figures.host_us))},
            {"host_share", rounded(median(figures.host_shares))},
            {"packed_bytes", report.packed_bytes},
            {"state_bytes", report.state_bytes},
            {"resident_bytes", report.resident_bytes},
            {"others_share", rounded(report.others_share)},
            {"load_ms", rounded(report.load_ms)},
            {"pack_ms", rounded(report.pack_ms)}};
  if (!report.profile.empty()) json["profile"] = profile_json(report.profile);
  return write_json(json);
}

}  // namespace ft
