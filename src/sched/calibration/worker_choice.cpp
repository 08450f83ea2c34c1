#include "sched/calibration/worker_choice.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/quantile.h"

namespace ft {
namespace {

constexpr double kEnoughMs = 500;
constexpr int kMaxWorkerSweeps = 8;
constexpr double kAsFast = 1.02;  // fewer workers leave cores to other programs
constexpr int kDrafts = 3;

/// A sequence whose rounds the choices share.
class Trial {
 public:
  Trial(Decoder& decoder, const std::function<double()>& now_ms) : decoder_(decoder), now_ms_(now_ms) {
    SlotOptions options;
    options.max_tokens = 1 << 20;
    options.depth = 0;
    const std::vector<std::int32_t> prompt(4, 0);  // n-gram lookup can continue it
    Result<std::unique_ptr<Slot>> slot = decoder.open(prompt, options, DrafterKind::kLookup);
    if (!slot.ok()) return;
    slot_ = std::move(*slot);
    ready_ = decoder.prefill(*slot_, static_cast<int>(prompt.size())).ok();
  }
  ~Trial() {
    if (slot_) decoder_.close(*slot_);
  }
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;

  bool ready() const { return ready_ && slot_->finish == Finish::kNone; }
  /// Milliseconds of a plain round and one of four rows.
  double rounds_ms() {
    const double begin = now_ms_();
    round(0);
    if (ready()) round(kDrafts);
    return now_ms_() - begin;
  }

 private:
  void round(int depth) {
    slot_->tokens.back() = 0;  // the same text for every output of the model
    slot_->policy = DepthPolicy(depth);
    Slot* only = slot_.get();
    decoder_.round({&only, 1});
  }

  Decoder& decoder_;
  const std::function<double()>& now_ms_;
  std::unique_ptr<Slot> slot_;
  bool ready_ = false;
};

/// Sets all workers again if a round throws.
class AllUnlessChosen {
 public:
  explicit AllUnlessChosen(Backend& backend) : backend_(backend) {}
  ~AllUnlessChosen() { backend_.use_workers(chosen); }
  AllUnlessChosen(const AllUnlessChosen&) = delete;
  AllUnlessChosen& operator=(const AllUnlessChosen&) = delete;
  int chosen = 0;

 private:
  Backend& backend_;
};

}  // namespace

bool WorkerChoice::plausible() const {
  constexpr int kMaxWorkers = 1 << 16;
  const auto good = [](const Tried& each) {
    return each.workers > 0 && each.workers <= kMaxWorkers && std::isfinite(each.ms) && each.ms > 0;
  };
  if (workers == 0) return tried.empty();
  return tried.size() <= kMaxTried && std::ranges::all_of(tried, good) &&
         std::ranges::count(tried, workers, &Tried::workers) == 1;
}

WorkerChoice choose_workers(Decoder& decoder, const std::function<double()>& now_ms) {
  const std::vector<int> choices = decoder.backend().worker_choices();
  if (choices.size() < 2 || choices.size() > WorkerChoice::kMaxTried) return {};
  AllUnlessChosen use(decoder.backend());
  Trial trial(decoder, now_ms);
  std::vector<std::vector<double>> ms(choices.size());
  if (trial.ready()) trial.rounds_ms();  // new memory is touched for the first time
  const double start = now_ms();
  for (int sweep = 0; sweep < kMaxWorkerSweeps && (sweep == 0 || now_ms() - start < kEnoughMs); ++sweep) {
    for (std::size_t i = 0; i < choices.size(); ++i) {
      if (!trial.ready()) return {};
      decoder.backend().use_workers(choices[i]);
      ms[i].push_back(trial.rounds_ms());
    }
  }
  WorkerChoice choice;
  double best = 0;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    choice.tried.push_back({choices[i], quantile(ms[i], 0.5)});
    if (i == 0 || choice.tried[i].ms < best) best = choice.tried[i].ms;
  }
  const auto chosen = std::ranges::find_if(
      choice.tried, [best](const WorkerChoice::Tried& each) { return each.ms <= kAsFast * best; });
  choice.workers = chosen->workers;
  if (!choice.plausible()) return {};
  use.chosen = choice.workers;
  return choice;
}

std::string worker_text(const WorkerChoice& choice) {
  if (choice.workers == 0) return {};
  std::vector<std::string> tried;
  for (const WorkerChoice::Tried& each : choice.tried)
    tried.push_back(fmt::format("{}: {:.2f} ms", each.workers, each.ms));
  return fmt::format("{} of {} workers ({})", choice.workers, choice.tried.back().workers,
                     fmt::join(tried, ", "));
}

}  // namespace ft
