#include "cli/bench/bench_drafters.h"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <set>

#include "base/json.h"
#include "base/text_layout.h"
#include "speculation/report_figures.h"

namespace ft::cli {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

struct Timed {
  GatheredAnswer answer;
  double first_token_ms = 0;
  std::vector<AnswerPiece> pieces;
};

Result<Timed> timed_answer(Engine& engine, const LoadedModel& loaded, const BenchCase& bench_case,
                           DrafterKind drafter, const std::atomic<bool>& stopped) {
  GenerateOptions ask = bench_case.ask;
  ask.request.drafter = drafter;
  if (drafter == DrafterKind::kNone) ask.request.depth = 0;
  FT_ASSIGN(Request request, make_request(bench_case.prompt, ask, loaded));
  const Clock::time_point start = Clock::now();
  FT_ASSIGN(Ticket ticket, engine.submit(std::move(request)));
  Timed timed;
  timed.answer = collect_answer(ticket, [&](const Event& event) {
    if (event.kind == Event::Kind::kToken) {
      if (timed.pieces.empty())
        timed.first_token_ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
      timed.pieces.push_back(
          {loaded.tokenizer->decode({&event.token, 1}, false), std::string(event.drafted_by)});
    }
    if (stopped) ticket.cancel();
  });
  if (timed.answer.finish == Finish::kError) return timed.answer.error;
  if (timed.answer.finish == Finish::kCancelled) return Error{Code::kCancelled, "stopped"};
  return timed;
}

void add_to(DrafterFigures& figures, const Timed& timed, bool identical, const std::string& prompt) {
  const Report& report = timed.answer.report;
  auto speeds = std::ranges::find(figures.prompts, prompt, &PromptSpeeds::name);
  if (speeds == figures.prompts.end()) speeds = figures.prompts.insert(speeds, {prompt, {}});
  speeds->tokens_per_second.push_back(report.tokens_per_second());
  figures.speed.add(report.completion_tokens, report.decode_ms);
  add(figures.speculation, report.speculation);
  ++figures.answers;
  figures.first_token_ms += (timed.first_token_ms - figures.first_token_ms) / figures.answers;
  figures.identical = figures.identical && identical;
}

std::size_t authors_of(const std::vector<AnswerPiece>& answer) {
  std::set<std::string_view> names;
  for (const AnswerPiece& piece : answer) names.insert(piece.drafted_by);
  return names.size();
}

std::string acceptance(const SpeculationReport& report) {
  std::string text;
  for (const double share : acceptance_by_position(report))
    text += fmt::format("{}{:.2f}", text.empty() ? "" : " ", share);
  return text.empty() ? "-" : text;
}

}  // namespace

std::vector<DrafterKind> benched_drafters(const Engine& engine) {
  std::vector<DrafterKind> kinds = {DrafterKind::kNone};
  for (const auto& drafter : engine.decoder().drafters()) {
    const Result<DrafterKind> kind = DrafterKind::parse(drafter->name());
    if (kind.ok()) kinds.push_back(*kind);
  }
  kinds.push_back(DrafterKind::kAuto);
  return kinds;
}

Status add_answers(Engine& engine, const LoadedModel& loaded, const BenchCase& bench_case,
                   std::span<const DrafterKind> drafters, std::size_t turn, const std::atomic<bool>& stopped,
                   DrafterTable& table) {
  if (table.drafters.empty()) {
    for (const DrafterKind drafter : drafters) {
      DrafterFigures figures;
      figures.name = drafter.name();
      table.drafters.push_back(std::move(figures));
    }
  }
  std::vector<Timed> answers(drafters.size());
  for (std::size_t i = 0; i < drafters.size(); ++i) {
    const std::size_t at = (i + turn) % drafters.size();
    FT_ASSIGN(answers[at], timed_answer(engine, loaded, bench_case, drafters[at], stopped));
  }
  for (std::size_t i = 0; i < drafters.size(); ++i)
    add_to(table.drafters[i], answers[i], answers[i].answer.ids == answers[0].answer.ids,
           bench_case.prompt.name);
  if (authors_of(answers.back().pieces) > authors_of(table.answer) || table.answer.empty())
    table.answer = std::move(answers.back().pieces);
  return {};
}

std::string drafter_table_text(const DrafterTable& table) {
  std::vector<std::vector<std::string>> rows = {{"drafter", "tokens", "tokens/s", "ratio", "tokens/round",
                                                 "first token", "accepted by position", "same"}};
  const double plain = table.drafters.empty() ? 0 : table.drafters.front().speed.tokens_per_second();
  for (const DrafterFigures& figures : table.drafters) {
    const double speed = figures.speed.tokens_per_second();
    rows.push_back({figures.name, std::to_string(figures.speed.tokens), fmt::format("{:.1f}", speed),
                    fmt::format("{:.2f} x", plain > 0 ? speed / plain : 0),
                    fmt::format("{:.2f}", tokens_per_round(figures.speculation)),
                    fmt::format("{:.1f} ms", figures.first_token_ms), acceptance(figures.speculation),
                    figures.identical ? "yes" : "NO"});
  }
  return table_text(rows);
}

std::string drafter_table_json(const DrafterTable& table) {
  Json list = Json::array();
  for (const DrafterFigures& figures : table.drafters) {
    Json by = Json::object();
    for (const DrafterShare& share : figures.speculation.by_drafter) {
      if (!share.name.empty())
        by[std::string(share.name)] = {
            {"rounds", share.rounds}, {"drafted", share.drafted}, {"accepted", share.accepted}};
    }
    list.push_back(Json{{"drafter", figures.name},
                        {"answers", figures.answers},
                        {"tokens", figures.speed.tokens},
                        {"tokens_per_second", figures.speed.tokens_per_second()},
                        {"tokens_per_round", tokens_per_round(figures.speculation)},
                        {"first_token_ms", figures.first_token_ms},
                        {"accepted_by_position", acceptance_by_position(figures.speculation)},
                        {"by_drafter", std::move(by)},
                        {"identical", figures.identical}});
  }
  return write_json(Json{{"model", table.model}, {"backend", table.backend}, {"drafters", std::move(list)}});
}

}  // namespace ft::cli
