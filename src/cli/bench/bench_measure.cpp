#include "cli/bench/bench_measure.h"

#include <algorithm>

#include "speculation/report_figures.h"

namespace ft::cli {
namespace {

constexpr int kWarmUpTokens = 8;
constexpr std::uint64_t kForcedSeed = 1;

std::string whole_text(const GatheredAnswer& answer) {
  std::string text = answer.reasoning + answer.text;
  for (const ToolCall& call : answer.tool_calls) text += call.name + " " + call.arguments;
  return text;
}

}  // namespace

Result<GatheredAnswer> whole_answer(Engine& engine, Request request, const std::atomic<bool>& stopped) {
  FT_ASSIGN(Ticket ticket, engine.submit(std::move(request)));
  GatheredAnswer answer = collect_answer(ticket, [&](const Event&) {
    if (stopped) ticket.cancel();
  });
  if (answer.finish == Finish::kError) return answer.error;
  if (answer.finish == Finish::kCancelled) return Error{Code::kCancelled, "stopped"};
  return answer;
}

Result<GatheredAnswer> BenchMeasure::answer(const BenchCase& bench_case, bool speculative) {
  GenerateOptions ask = bench_case.ask;
  if (!speculative) {
    ask.request.drafter = DrafterKind::kNone;
    ask.request.depth = 0;
  } else if (!forced_.empty()) {
    ask.request.drafter = SyntheticDrafter::kKind;
  }
  FT_ASSIGN(Request request, make_request(bench_case.prompt, ask, loaded_));
  return whole_answer(engine_, std::move(request), cancelled_);
}

void BenchMeasure::cancel() { cancelled_ = true; }

Status BenchMeasure::warm_up(const BenchCase& bench_case) {
  BenchCase brief = bench_case;
  brief.ask.request.max_tokens = std::min<std::int64_t>(brief.ask.request.max_tokens, kWarmUpTokens);
  const ForcedSchedule forced = std::exchange(forced_, {});
  FT_TRY(answer(brief, false));
  FT_TRY(answer(brief, true));
  forced_ = forced;
  return {};
}

Status BenchMeasure::add_pair(const BenchCase& bench_case, BenchPrompt& result) {
  // A synthetic drafter needs a recorded answer, so plain decoding runs first.
  const bool plain_first = pairs_++ % 2 == 0 || !forced_.empty();
  GatheredAnswer plain, speculative;
  if (plain_first) {
    FT_ASSIGN(plain, answer(bench_case, false));
  }
  if (!forced_.empty()) {
    std::vector<std::int32_t> recorded = bench_case.prompt.ids;
    recorded.insert(recorded.end(), plain.ids.begin(), plain.ids.end());
    engine_.force(forced_, kForcedSeed, std::move(recorded));
  }
  FT_ASSIGN(speculative, answer(bench_case, true));
  if (!plain_first) {
    FT_ASSIGN(plain, answer(bench_case, false));
  }

  result.prompt_tokens = plain.report.prompt_tokens;
  result.plain.add(plain.report.completion_tokens, plain.report.decode_ms);
  result.speculative.add(speculative.report.completion_tokens, speculative.report.decode_ms);
  if (const double slow = plain.report.tokens_per_second(); slow > 0) {
    result.ratios.push_back(speculative.report.tokens_per_second() / slow);
  }
  add(result.speculation, speculative.report.speculation);
  result.drafter = speculative.report.drafter;
  result.reason = speculative.report.reason;
  result.identical = result.identical && plain.ids == speculative.ids;
  result.text = whole_text(plain);
  result.speculative_text = whole_text(speculative);
  return {};
}

}  // namespace ft::cli
