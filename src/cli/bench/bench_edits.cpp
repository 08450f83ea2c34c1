#include "cli/bench/bench_edits.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/text_layout.h"
#include "speculation/report_figures.h"

namespace ft::cli {
namespace {

using Ids = std::vector<std::int32_t>;

/// Generates one version after the other; returns their tokens.
Result<std::vector<Ids>> answer_all(Engine& engine, const LoadedModel& loaded,
                                    std::span<const BenchCase> versions, std::uint64_t& owner,
                                    const std::atomic<bool>& stopped, EditFigures& way) {
  std::vector<Ids> tokens;
  ++owner;
  for (const BenchCase& version : versions) {
    GenerateOptions ask = version.ask;
    ask.request.drafter = way.drafter;
    if (way.drafter == DrafterKind::kNone) ask.request.depth = 0;
    ask.owner = way.remembers ? owner : ++owner;
    FT_ASSIGN(Request request, make_request(version.prompt, ask, loaded));
    FT_ASSIGN(GatheredAnswer answer, whole_answer(engine, std::move(request), stopped));
    way.speed.add(answer.report.completion_tokens, answer.report.decode_ms);
    add(way.speculation, answer.report.speculation);
    tokens.push_back(std::move(answer.ids));
  }
  return tokens;
}

}  // namespace

std::vector<std::string> edit_requests() {
  std::vector<std::string> requests;
  for (const char* method :
       {"size", "is_empty", "clear", "reverse", "top", "copy", "contains", "extend", "count", "to_list"})
    requests.push_back(
        fmt::format("Write a Python class `Stack` with the methods push, pop, peek and {}.", method));
  return requests;
}

std::vector<EditFigures> edit_ways() {
  const auto way = [](const char* name, DrafterKind drafter, bool remembers) {
    return EditFigures{name, drafter, remembers, {}, {}, true};
  };
  return {way("none", DrafterKind::kNone, false), way("lookup", DrafterKind::kLookup, false),
          way("recall", DrafterKind::kRecall, true), way("auto without recall", DrafterKind::kAuto, false),
          way("auto", DrafterKind::kAuto, true)};
}

Status add_versions(Engine& engine, const LoadedModel& loaded, std::span<const BenchCase> versions,
                    std::size_t turn, std::uint64_t& owner, const std::atomic<bool>& stopped,
                    EditReport& report) {
  if (report.ways.empty()) report.ways = edit_ways();
  report.versions = static_cast<int>(versions.size());
  std::vector<std::vector<Ids>> answers(report.ways.size());
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const std::size_t at = (i + turn) % answers.size();
    FT_ASSIGN(answers[at], answer_all(engine, loaded, versions, owner, stopped, report.ways[at]));
  }
  for (std::size_t i = 0; i < answers.size(); ++i)
    report.ways[i].identical = report.ways[i].identical && answers[i] == answers[0];
  return {};
}

std::string edits_text(const EditReport& report) {
  std::vector<std::vector<std::string>> rows = {
      {"drafts from", "tokens", "tokens/s", "ratio", "tokens/round", "same"}};
  const double plain = report.ways.empty() ? 0 : report.ways.front().speed.tokens_per_second();
  for (const EditFigures& way : report.ways) {
    const double speed = way.speed.tokens_per_second();
    rows.push_back({way.name, std::to_string(way.speed.tokens), fmt::format("{:.1f}", speed),
                    fmt::format("{:.2f} x", plain > 0 ? speed / plain : 0),
                    fmt::format("{:.2f}", tokens_per_round(way.speculation)), way.identical ? "yes" : "NO"});
  }
  return table_text(rows) +
         fmt::format("\n{} versions of one file, {} on {}\n", report.versions, report.model, report.backend);
}

std::string edits_json(const EditReport& report) {
  nlohmann::ordered_json ways = nlohmann::ordered_json::array();
  for (const EditFigures& way : report.ways) {
    ways.push_back({{"drafter", way.name},
                    {"remembers", way.remembers},
                    {"tokens", way.speed.tokens},
                    {"tokens_per_second", way.speed.tokens_per_second()},
                    {"rounds", way.speculation.rounds},
                    {"tokens_per_round", tokens_per_round(way.speculation)},
                    {"identical", way.identical}});
  }
  return write_json(nlohmann::ordered_json{{"model", report.model},
                                           {"backend", report.backend},
                                           {"versions", report.versions},
                                           {"ways", std::move(ways)}});
}

}  // namespace ft::cli
