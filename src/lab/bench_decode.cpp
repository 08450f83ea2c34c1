#include "lab/bench_decode.h"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "base/clock.h"
#include "base/quantile.h"
#include "lab/bench_prompts.h"
#include "lab/instruction_cost.h"
#include "sched/calibration/calibrate.h"

namespace ft {
namespace {

constexpr int kWarmUpRounds = 4;
constexpr int kSweeps = 2;        // over all depths, per cycle
constexpr int kRejectedRows = 4;  // rows of a round that rejects every draft
// One sweep emits as many tokens as its rounds have rows, and one token from the rejected round.
constexpr int kSweepTokens = std::accumulate(std::begin(DecodePlan::kSizes), std::end(DecodePlan::kSizes), 1);
constexpr int kMargin = 2 * (kMaxDraftTokens + 1);  // keeps drafts available at the end of the recording

double ms_since(std::int64_t begin_ns) { return static_cast<double>(steady_ns() - begin_ns) * 1e-6; }

std::vector<double> always(double chance) { return std::vector<double>(kMaxDraftTokens, chance); }

/// Max length of a sequence: prompt, plain chunks, sweeps and drafted chunks.
std::int64_t context_of(const DecodePlan& plan) {
  std::int64_t variants = 0;
  for (const auto& schedule : plan.schedules) {
    variants += 1 + (plan.fixed ? static_cast<std::int64_t>(schedule.size()) : 0);
  }
  const std::int64_t cycle =
      plan.tokens + 2 * kSweeps * kSweepTokens + variants * (plan.tokens + kMaxDraftTokens);
  return plan.prompt_tokens + kWarmUpRounds + plan.cycles * cycle + plan.tokens + 8 * kMargin;
}

}  // namespace

DecodeBench::DecodeBench(const MeasuredModel& loaded, const StepWatch& watch, const DecodePlan& plan)
    : loaded_(loaded),
      watch_(watch),
      plan_(plan),
      probe_(plan.threads, &loaded.backend),
      answers_(3),
      free_right_(nullptr, always(1), plan.seed),
      free_wrong_(nullptr, always(0), plan.seed),
      headed_right_(nullptr, always(1), plan.seed) {}

Result<std::unique_ptr<DecodeBench>> DecodeBench::make(const MeasuredModel& loaded, const StepWatch& watch,
                                                       const DecodePlan& plan) {
  std::unique_ptr<DecodeBench> bench(new DecodeBench(loaded, watch, plan));
  const std::int64_t begin = steady_ns();
  DecoderOptions options;
  options.slots = 3;
  options.context = context_of(plan);
  FT_ASSIGN(bench->decoder_, Decoder::make(loaded.backend, loaded.model, options));
  bench->pack_ms_ = ms_since(begin);
  if (const Drafter* network = bench->decoder_->network_drafter()) bench->figures_.network = network->name();
  bench->headed_right_ = bench->drafting(always(1), plan.seed);
  for (const auto& schedule : plan.schedules) {
    const int deepest = plan.fixed ? static_cast<int>(schedule.size()) : 0;
    for (int depth = 0; depth <= deepest; ++depth) {
      const int fixed = depth == 0 ? -1 : depth;  // auto first
      bench->variants_.push_back(std::make_unique<Variant>(Variant{
          bench->figures_.forced.size(), bench->drafting(schedule, plan.seed + 1), DepthPolicy(fixed)}));
      bench->figures_.forced.push_back({schedule, fixed, {}, {}, 0, 0, 0});
    }
  }
  bench->prompt_ = random_prompt(plan.prompt_tokens, loaded.model.facts.vocabulary, plan.seed);
  const int kinds =
      plan.plain ? 1 : 2 + static_cast<int>(bench->variants_.size());  // kinds of pieces in a cycle
  bench->pieces_ = plan.prompts + (plan.plain ? 0 : 1) + plan.cycles * kinds;
  return bench;
}

Status DecodeBench::run(const std::function<bool(int, int)>& progress) {
  progress_ = progress;
  calibrate(*decoder_);
  FT_TRY(prompts());
  FT_TRY(plain_chunks());
  if (plan_.plain) return {};
  FT_TRY(round_costs());
  return forced_answers();
}

Status DecodeBench::tick() {
  return progress_(++done_, pieces_) ? Status() : Error{Code::kCancelled, "stopped"};
}

SyntheticDrafter DecodeBench::drafting(std::vector<double> schedule, std::uint64_t seed) const {
  Drafter* const network = decoder_->network_drafter();
  SyntheticDrafter drafter(network, std::move(schedule), seed);
  if (network != nullptr) drafter.set_number(network->number());  // its passes cost as much as the network's
  return drafter;
}

/// A sequence with its prompt; the prompt time counts only without a drafter.
Result<std::unique_ptr<Slot>> DecodeBench::open(Drafter* drafter, DrafterKind kind) {
  SlotOptions options;
  options.max_tokens = 1 << 24;
  if (plan_.penalised) options.sampler.presence = 1.5F;
  if (plan_.masked) {
    const std::int64_t vocabulary = loaded_.model.facts.vocabulary;
    options.mask.assign(static_cast<std::size_t>((vocabulary + 31) / 32), ~std::uint32_t{0});
  }
  FT_ASSIGN(std::unique_ptr<Slot> slot, decoder_->open(prompt_, options, kind));
  if (drafter != nullptr) slot->drafter = drafter;
  FT_ASSIGN(const std::unique_ptr<RowStore> fence, loaded_.backend.make_rows(1, 1));
  float number = 0;
  fence->write(0, {&number, 1});
  fence->read(0, {&number, 1});
  const std::int64_t begin = steady_ns();
  while (!slot->prefilled()) FT_TRY(decoder_->prefill(*slot, decoder_->options().prefill_chunk));
  fence->read(0, {&number, 1});  // a device is still at work when the last chunk has been submitted
  if (kind == DrafterKind::kNone) {
    figures_.prompt_per_second.push_back(static_cast<double>(prompt_.size() - 1) * 1e3 / ms_since(begin));
  }
  return slot;
}

Status DecodeBench::prompts() {
  FT_ASSIGN(plain_, open(nullptr, DrafterKind::kNone));
  FT_TRY(tick());
  FT_ASSIGN(free_, open(&free_right_, DrafterKind::kNone));
  FT_TRY(tick());
  for (int i = 2; i < plan_.prompts; ++i) {
    FT_ASSIGN(const std::unique_ptr<Slot> again, open(nullptr, DrafterKind::kNone));
    decoder_->close(*again);
    FT_TRY(tick());
  }
  if (plan_.plain) return {};
  const Drafter* network = decoder_->network_drafter();
  FT_ASSIGN(headed_,
            open(&headed_right_, network != nullptr ? DrafterKind(network->name()) : DrafterKind::kNone));
  FT_TRY(tick());
  if (loaded_.tokenizer == nullptr) return {};
  for (Slot* slot : {plain_.get(), headed_.get()}) {
    FT_ASSIGN(Answer answer, Answer::create(*loaded_.tokenizer, *loaded_.chat_format, {}));
    std::optional<Answer>& place = answers_[static_cast<std::size_t>(slot->id)];
    place.emplace(std::move(answer));
    slot->on_token = [&place](std::int32_t token, std::span<const float>, std::string_view) {
      place->push(token);
      return false;
    };
  }
  return {};
}

DecodeBench::Timed DecodeBench::round(Slot& slot) {
  Slot* only = &slot;
  const std::size_t before = slot.tokens.size();
  const std::int64_t inside = watch_.run_ns, begin = steady_ns();
  Timed timed;
  timed.shape = decoder_->round({&only, 1});
  timed.ms = ms_since(begin);
  timed.host_ms = timed.ms - static_cast<double>(watch_.run_ns - inside) * 1e-6;
  timed.emitted = static_cast<int>(slot.tokens.size() - before);
  return timed;
}

DecodeBench::Timed DecodeBench::round_at(Slot& slot, SyntheticDrafter& drafter, int depth) {
  drafter.record(plain_->tokens);
  slot.drafter = &drafter;
  slot.policy = DepthPolicy(depth);
  return round(slot);
}

Status DecodeBench::lead(const Slot& slot, int ahead) {
  while (plain_->tokens.size() < slot.tokens.size() + static_cast<std::size_t>(ahead)) {
    if (round(*plain_).emitted == 0) return plain_->error;
  }
  return {};
}

Status DecodeBench::catch_up(Slot& slot, SyntheticDrafter& drafter, int lag) {
  while (slot.tokens.size() + static_cast<std::size_t>(lag) < plain_->tokens.size()) {
    if (round_at(slot, drafter, kMaxDraftTokens - 1).emitted == 0) return slot.error;
  }
  return {};
}

/// Milliseconds of the plain sequence for `tokens` tokens.
Result<double> DecodeBench::timed_plain(int tokens) {
  double ms = 0;
  for (int i = 0; i < tokens; ++i) {
    const Timed timed = round(*plain_);
    if (timed.emitted == 0) return plain_->error;
    decoder_->observe(timed.shape, timed.ms);
    ms += timed.ms;
  }
  return ms;
}

Status DecodeBench::plain_chunks() {
  FT_TRY(timed_plain(kWarmUpRounds));
  figures_.context_first = static_cast<std::int64_t>(plain_->tokens.size());
  figures_.context_last = figures_.context_first + static_cast<std::int64_t>(plan_.cycles) * plan_.tokens;
  figures_.bytes_per_token = static_cast<double>(bytes_per_token(
      loaded_.model.target, (figures_.context_first + figures_.context_last) / 2, loaded_.backend));
  for (int cycle = 0; cycle < plan_.cycles; ++cycle) {
    const double before = probe_.gb_per_s();
    FT_ASSIGN(const double ms, timed_plain(plan_.tokens));
    const double bandwidth = (before + probe_.gb_per_s()) / 2;
    const double per_second = plan_.tokens * 1e3 / ms;
    figures_.bandwidths.push_back(bandwidth);
    figures_.plain_per_second.push_back(per_second);
    figures_.limit_shares.push_back(per_second * figures_.bytes_per_token / (bandwidth * 1e9));
    FT_TRY(tick());
  }
  return {};
}

Status DecodeBench::round_costs() {
  const bool has_network = decoder_->network_drafter() != nullptr;
  for (int sweep = 0; sweep < plan_.cycles * kSweeps; ++sweep) {
    FT_TRY(lead(*free_, kSweepTokens + kMargin));
    if (has_network) FT_TRY(lead(*headed_, kSweepTokens + kMargin));
    std::vector<double> plain;
    std::array<double, DecodePlan::kRows + 1> free{}, headed{};
    for (const int rows : DecodePlan::kSizes) {
      const auto at = static_cast<std::size_t>(rows);
      plain.push_back(round(*plain_).ms);
      if (const Timed timed = round_at(*free_, free_right_, rows - 1); timed.shape.rows == rows) {
        free[at] = timed.ms;
      }
      if (!has_network) continue;
      plain.push_back(round(*plain_).ms);
      if (const Timed timed = round_at(*headed_, headed_right_, rows - 1); timed.shape.rows == rows) {
        headed[at] = timed.ms;
      }
    }
    const Timed rejected = round_at(*free_, free_wrong_, kRejectedRows - 1);
    plain.push_back(round(*plain_).ms);
    const double step = quantile(plain, 0.5);
    figures_.rejected_cost.push_back(rejected.ms / step);
    figures_.round_cost[1].push_back(1);
    for (const int rows : DecodePlan::kSizes) {
      const auto at = static_cast<std::size_t>(rows);
      if (free[at] > 0) figures_.round_cost[at].push_back(free[at] / step);
      if (headed[at] > 0) figures_.drafted_cost[at].push_back(headed[at] / step);
    }
    if (sweep % kSweeps == 0) FT_TRY(tick());
  }
  return {};
}

Status DecodeBench::forced_answers() {
  if (variants_.empty()) return {};
  FT_TRY(catch_up(*headed_, headed_right_, plan_.tokens + kMargin));
  for (int cycle = 0; cycle < plan_.cycles; ++cycle) {
    for (const std::unique_ptr<Variant>& variant : variants_) {
      FT_TRY(compare(*variant, cycle % 2 == 0));
      FT_TRY(tick());
    }
  }
  return {};
}

/// A plain chunk next to a chunk of the variant, whose policy keeps its state from chunk to chunk.
Status DecodeBench::compare(Variant& variant, bool plain_first) {
  FT_TRY(lead(*headed_, plan_.tokens + kMargin));
  double plain_ms = 0;
  if (plain_first) {
    FT_ASSIGN(plain_ms, timed_plain(plan_.tokens));
  }
  variant.drafter.record(plain_->tokens);
  headed_->drafter = &variant.drafter;
  headed_->policy = variant.policy;
  ForcedResult& result = figures_.forced[variant.result];
  double ms = 0, host_ms = 0;
  int emitted = 0, rounds = 0;
  while (emitted < plan_.tokens) {
    const Timed timed = round(*headed_);
    if (timed.emitted == 0) return headed_->error;
    decoder_->observe(timed.shape, timed.ms);
    ms += timed.ms, host_ms += timed.host_ms;
    emitted += timed.emitted, rounds += 1;
    result.drafted += timed.shape.deepest;
  }
  variant.policy = headed_->policy;
  if (!plain_first) {
    FT_ASSIGN(plain_ms, timed_plain(plan_.tokens));
  }
  result.rounds += rounds, result.emitted += emitted;
  result.tokens_per_second.push_back(emitted * 1e3 / ms);
  result.ratios.push_back(emitted / ms * (plain_ms / plan_.tokens));
  figures_.host_us.push_back(host_ms * 1e3 / rounds);
  figures_.host_shares.push_back(host_ms / ms);
  return {};
}

}  // namespace ft
