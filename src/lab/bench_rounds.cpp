#include "lab/bench_rounds.h"

#include <algorithm>

#include "base/clock.h"
#include "lab/bandwidth.h"
#include "lab/instruction_cost.h"
#include "speculation/decoder.h"

namespace ft {
namespace {

constexpr std::int64_t kContexts[] = {256, 2048, 8192};
constexpr int kRows[] = {1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16};
constexpr int kRoundSweeps = 4;
constexpr std::size_t kPeriod = 8;

/// A text that repeats itself, so that lookup can offer drafts of any depth.
std::int32_t token_at(std::size_t position, int vocabulary) {
  return static_cast<std::int32_t>(position % kPeriod) * (vocabulary / static_cast<int>(kPeriod));
}

Result<RoundCosts> at_context(Decoder& decoder, std::int64_t context, const std::atomic<bool>& stopped) {
  const int vocabulary = decoder.model().facts.vocabulary;
  std::vector<std::int32_t> prompt(static_cast<std::size_t>(context));
  for (std::size_t i = 0; i < prompt.size(); ++i) prompt[i] = token_at(i, vocabulary);
  SlotOptions options;
  options.max_tokens = 1 << 20;
  FT_ASSIGN(const std::unique_ptr<Slot> slot, decoder.open(prompt, options, DrafterKind::kLookup));
  Slot* only = slot.get();
  const auto close = [&decoder](Slot* open) { decoder.close(*open); };
  const std::unique_ptr<Slot, decltype(close)> closing(only, close);
  while (!only->prefilled() && !stopped) FT_TRY(decoder.prefill(*only, decoder.options().prefill_chunk));
  RoundCosts costs;
  costs.context = context;
  for (const int rows : kRows) costs.points.push_back({rows, 0});
  for (int sweep = 0; sweep <= kRoundSweeps; ++sweep) {  // the first one only touches memory
    for (RoundCosts::Point& point : costs.points) {
      if (stopped) return Error{Code::kCancelled, "stopped"};
      if (only->finish != Finish::kNone) return only->error;
      only->tokens.back() = token_at(only->tokens.size() - 1, vocabulary);
      only->policy = DepthPolicy(point.rows - 1);
      const std::int64_t begin = steady_ns();
      const RoundShape shape = decoder.round({&only, 1});
      const double ms = static_cast<double>(steady_ns() - begin) * 1e-6;
      if (sweep > 0 && shape.rows == point.rows) point.ms = point.ms == 0 ? ms : std::min(point.ms, ms);
    }
  }
  std::erase_if(costs.points, [](const RoundCosts::Point& point) { return point.ms == 0; });
  return costs;
}

}  // namespace

Result<std::vector<RoundCosts>> measure_rounds(const MeasuredModel& loaded, std::int64_t longest,
                                               const std::atomic<bool>& stopped) {
  // Every round adds a token, and drafts need room beyond them.
  constexpr std::int64_t kRoom =
      std::ssize(kRows) * (kRoundSweeps + 1) * (kMaxDraftTokens + 1) + kMaxDraftTokens;
  longest = std::min(longest, loaded.model.facts.context - kRoom);
  DecoderOptions options;
  options.context = kRoom + std::clamp(longest, kContexts[0], *std::rbegin(kContexts));
  FT_ASSIGN(const std::unique_ptr<Decoder> decoder, Decoder::make(loaded.backend, loaded.model, options));
  BandwidthProbe probe(loaded.threads, &loaded.backend);
  std::vector<RoundCosts> all;
  for (const std::int64_t context : kContexts) {
    if (context > longest && !all.empty()) break;
    const double before = probe.gb_per_s();
    FT_ASSIGN(RoundCosts costs, at_context(*decoder, context, stopped));
    const double bytes = static_cast<double>(bytes_per_token(loaded.model.target, context, loaded.backend));
    costs.limit_ms = bytes / std::max(before, probe.gb_per_s()) * 1e-6;
    all.push_back(std::move(costs));
  }
  return all;
}

}  // namespace ft
