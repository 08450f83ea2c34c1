#include "lab/bench_streams.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/json.h"
#include "base/quantile.h"
#include "base/text_layout.h"
#include "lab/bench_prompts.h"
#include "sched/calibration/calibrate.h"

namespace ft {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kStreamMargin =
    2 * (kMaxDraftTokens + 1);  // the recording is longer than the answers, for the last drafts

double median_of(const std::vector<double>& values) { return quantile(values, 0.5); }

class StreamsBench {
 public:
  StreamsBench(Decoder& decoder, const StreamsPlan& plan, const std::function<bool(int, int)>& progress)
      : decoder_(decoder), plan_(plan), progress_(progress) {
    for (const auto& schedule : plan_.schedules) {
      figures_.drafted.push_back({schedule, -1, {}, {}});
      const int deepest = plan_.fixed ? static_cast<int>(schedule.size()) : 0;
      for (int depth = 1; depth <= deepest; ++depth) figures_.drafted.push_back({schedule, depth, {}, {}});
    }
    pieces_ = plan.streams + 1 + (plan.cycles + 1) * 2 * (1 + static_cast<int>(figures_.drafted.size()));
  }

  Result<StreamsFigures> run() {
    calibrate(decoder_);
    FT_TRY(prompts());
    FT_TRY(record());
    for (int cycle = -1; cycle < plan_.cycles; ++cycle) FT_TRY(turn(cycle));
    for (const auto& slot : begun_) decoder_.close(*slot);
    return figures_;
  }

 private:
  Status tick() { return progress_(++done_, pieces_) ? Status() : Error{Code::kCancelled, "stopped"}; }

  /// One prompt for each stream, each computed separately, so that answers share no memory.
  Status prompts() {
    const std::vector<std::int32_t> prompt =
        random_prompt(plan_.prompt_tokens, decoder_.model().facts.vocabulary, plan_.seed);
    const Drafter* network = decoder_.network_drafter();
    const DrafterKind kind = network != nullptr ? DrafterKind{network->name()} : DrafterKind::kNone;
    for (int i = 0; i < plan_.streams; ++i) {
      FT_ASSIGN(std::unique_ptr<Slot> slot, decoder_.open(prompt, answers(), kind));
      begun_.push_back(std::move(slot));
      while (!begun_.back()->prefilled()) {
        FT_TRY(decoder_.prefill(*begun_.back(), decoder_.options().prefill_chunk));
      }
      FT_TRY(tick());
    }
    return {};
  }

  static SlotOptions answers(int depth = -1) {
    SlotOptions options;
    options.depth = depth;
    options.max_tokens = 1 << 24;
    return options;
  }

  Status record() {
    StreamsSide unused;
    FT_TRY(answer(1, plan_.tokens + kStreamMargin, {}, unused));
    return tick();
  }

  /// One cycle; the one before the first warms up and teaches costs. Every other cycle runs backwards.
  Status turn(int cycle) {
    StreamsFigures unused = figures_;
    StreamsFigures& into = cycle < 0 ? unused : figures_;
    const int count = static_cast<int>(figures_.drafted.size()) + 1;
    for (int i = 0; i < count; ++i) {
      const int at = cycle % 2 == 0 ? i : count - 1 - i;
      DrafterKind kind = DrafterKind::kNone;
      StreamsSide* one = &into.plain_one;
      StreamsSide* all = &into.plain_all;
      int depth = -1;
      if (at > 0) {
        StreamsFigures::Drafted& drafted = into.drafted[static_cast<std::size_t>(at - 1)];
        one = &drafted.one, all = &drafted.all, kind = SyntheticDrafter::kKind;
        depth = drafted.depth;
        decoder_.force(drafted.schedule, plan_.seed + 1).record(recorded_);
      }
      FT_TRY(answer(1, plan_.tokens, {kind, depth}, *one));
      FT_TRY(tick());
      FT_TRY(answer(plan_.streams, plan_.tokens, {kind, depth}, *all));
      FT_TRY(tick());
    }
    return {};
  }

  struct Drafting {
    DrafterKind kind = DrafterKind::kNone;
    int depth = -1;
  };

  /// Answers of `tokens` tokens by `streams` slots together.
  Status answer(int streams, int tokens, const Drafting& drafting, StreamsSide& side) {
    std::vector<std::unique_ptr<Slot>> slots;
    std::vector<Slot*> running;
    Status status;
    for (int i = 0; i < streams && status.ok(); ++i) {
      Result<std::unique_ptr<Slot>> slot =
          decoder_.fork(*begun_[static_cast<std::size_t>(i)], answers(drafting.depth), drafting.kind);
      if (slot.ok()) {
        slots.push_back(std::move(*slot));
        running.push_back(slots.back().get());
      } else {
        status = slot.error();
      }
    }
    if (status.ok()) status = rounds(running, tokens, side);
    for (const auto& slot : slots) decoder_.close(*slot);
    return status;
  }

  Status rounds(const std::vector<Slot*>& running, int tokens, StreamsSide& side) {
    const auto length = [](const Slot* slot) { return std::ssize(slot->tokens); };
    const auto total = [&] {
      std::int64_t sum = 0;
      for (const Slot* slot : running) sum += length(slot);
      return sum;
    };
    const std::int64_t first = total();
    double spent = 0;
    while (length(*std::ranges::min_element(running, {}, length)) < plan_.prompt_tokens + tokens) {
      const std::int64_t begin = steady_ns();
      const RoundShape shape = decoder_.round(running);
      const double ms = static_cast<double>(steady_ns() - begin) * 1e-6;
      for (const Slot* slot : running) {
        if (slot->finish != Finish::kNone) return slot->error;
      }
      decoder_.observe(shape, ms);
      spent += ms, side.rounds += 1;
      side.drafted += shape.rows - shape.slots;
    }
    const std::int64_t emitted = total() - first;
    side.emitted += emitted;
    side.per_second.push_back(static_cast<double>(emitted) * 1e3 / spent);
    return same(running);
  }

  /// The first answer is the recording; every other one must begin like it.
  Status same(const std::vector<Slot*>& running) {
    if (recorded_.empty()) recorded_ = running.front()->tokens;
    for (const Slot* slot : running) {
      const auto parts = std::ranges::mismatch(slot->tokens, recorded_);
      if (parts.in1 == slot->tokens.end() || parts.in2 == recorded_.end()) continue;
      return Error{
          Code::kCorrupt,
          fmt::format("token {} of stream {} of {} differs from the plain answer of one stream",
                      parts.in1 - slot->tokens.begin() - plan_.prompt_tokens, slot->id, running.size())};
    }
    return {};
  }

  Decoder& decoder_;
  const StreamsPlan& plan_;
  const std::function<bool(int, int)>& progress_;
  std::vector<std::unique_ptr<Slot>> begun_;  // at the end of their prompts
  std::vector<std::int32_t> recorded_;        // prompt and plain answer
  StreamsFigures figures_;
  int done_ = 0, pieces_ = 0;
};

std::vector<std::string> line(const std::string& name, const StreamsSide& one, const StreamsSide& all,
                              const StreamsFigures& figures) {
  const auto rounds = static_cast<double>(std::max<std::int64_t>(1, all.rounds));
  return {name,
          fmt::format("{:.1f}", median_of(one.per_second)),
          fmt::format("{:.2f}", median_of(one.per_second) / median_of(figures.plain_one.per_second)),
          fmt::format("{:.1f}", median_of(all.per_second)),
          fmt::format("{:.2f}", median_of(all.per_second) / median_of(figures.plain_all.per_second)),
          fmt::format("{:.2f}", median_of(all.per_second) / median_of(one.per_second)),
          fmt::format("{:.1f}", static_cast<double>(all.drafted) / rounds)};
}

Json side_json(const StreamsSide& side) {
  return {{"tokens_per_second", std::round(median_of(side.per_second) * 1e2) / 1e2},
          {"low", std::round(quantile(side.per_second, 0) * 1e2) / 1e2},
          {"high", std::round(quantile(side.per_second, 1) * 1e2) / 1e2},
          {"rounds", side.rounds},
          {"emitted", side.emitted},
          {"drafted", side.drafted}};
}

}  // namespace

Result<StreamsFigures> measure_streams(const MeasuredModel& loaded, const StreamsPlan& plan,
                                       const std::function<bool(int, int)>& progress) {
  DecoderOptions options;
  options.slots = 2 * plan.streams;  // half of them keep the prompts
  options.context = plan.prompt_tokens + plan.tokens + 2 * kStreamMargin;
  FT_ASSIGN(const std::unique_ptr<Decoder> decoder, Decoder::make(loaded.backend, loaded.model, options));
  return StreamsBench(*decoder, plan, progress).run();
}

std::string streams_text(const StreamsPlan& plan, const StreamsFigures& figures) {
  std::vector<std::vector<std::string>> rows = {{"accepted", "1 stream, tokens/s", "to plain",
                                                 fmt::format("{} streams, tokens/s", plan.streams),
                                                 "to plain", "to 1 stream", "drafted per round"}};
  rows.push_back(line("plain", figures.plain_one, figures.plain_all, figures));
  for (const StreamsFigures::Drafted& drafted : figures.drafted) {
    const std::string depth = drafted.depth < 0 ? "" : fmt::format(", depth {}", drafted.depth);
    rows.push_back(line(fmt::format("{}{}", fmt::join(drafted.schedule, ","), depth), drafted.one,
                        drafted.all, figures));
  }
  return table_text(rows);
}

std::string streams_json(const std::string& model, const std::string& backend, const StreamsPlan& plan,
                         const StreamsFigures& figures) {
  Json drafted = Json::array();
  for (const StreamsFigures::Drafted& each : figures.drafted) {
    drafted.push_back({{"schedule", each.schedule},
                       {"depth", each.depth < 0 ? Json("auto") : Json(each.depth)},
                       {"one", side_json(each.one)},
                       {"all", side_json(each.all)}});
  }
  return write_json(
      Json{{"model", model},
           {"backend", backend},
           {"streams", plan.streams},
           {"prompt_tokens", plan.prompt_tokens},
           {"plain", {{"one", side_json(figures.plain_one)}, {"all", side_json(figures.plain_all)}}},
           {"drafted", std::move(drafted)}});
}

}  // namespace ft
