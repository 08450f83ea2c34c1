// What decoding costs with a model, without a prompt's text: plain steps, prompt chunks, rounds of 1 to 8
// rows with and without the head's drafts, and answers at a stated acceptance. Three sequences stand side by
// side on the same prompt: one decodes plainly and thereby records the answer, two verify it. All comparisons
// are of neighbours in time: a plain step beside every round, a plain chunk beside every drafted one. Owner:
// bench_decode_command. Thread: the caller's is the engine thread. Cost: seconds to minutes, see
// DecodePlan. Errors: those of Decoder; kCancelled.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/bandwidth.h"
#include "cli/loading.h"
#include "cli/watched_backend.h"
#include "drafters/synthetic.h"
#include "text/answer.h"

namespace ft::cli {

struct DecodePlan {
  static constexpr int kRows = 8;  // of the largest round
  int prompt_tokens = 512;
  int prompts = 3;
  int cycles = 5;                              // every figure is a median over as many
  int tokens = 32;                             // of a chunk
  std::vector<std::vector<double>> schedules;  // chances that a draft is right, by position
  bool plain = false;                          // prompts and plain chunks only
  bool fixed = false;                          // every schedule at its fixed depths too, beside auto
  std::uint64_t seed = 0;                      // of the prompt and of what is spoilt
  int threads = 0;                             // of the bandwidth probe
};

struct ForcedResult {
  std::vector<double> schedule;
  int depth = -1;  // auto
  std::vector<double> ratios, tokens_per_second;
  std::int64_t rounds = 0, emitted = 0, drafted = 0;
};

struct DecodeFigures {
  double bytes_per_token = 0;
  std::int64_t context_first = 0, context_last = 0;  // of the plain chunks
  std::vector<double> bandwidths;                    // GB/s, around the plain chunks
  std::vector<double> plain_per_second, limit_shares, prompt_per_second;
  std::array<std::vector<double>, DecodePlan::kRows + 1> round_cost, drafted_cost;  // by rows, in plain steps
  std::vector<double> rejected_cost;         // of four rows that are all rejected
  std::vector<double> host_us, host_shares;  // of a round, outside of the backend
  std::vector<ForcedResult> forced;
};

class DecodeBench {
 public:
  /// `loaded` and `watch` (of its backend) must outlive the bench.
  static Result<std::unique_ptr<DecodeBench>> make(const Loaded& loaded, const StepWatch& watch,
                                                   const DecodePlan& plan);

  /// `progress(done, all)` between pieces of work; false stops with kCancelled.
  Status run(const std::function<bool(int, int)>& progress);
  const DecodeFigures& figures() const { return figures_; }
  const Decoder& decoder() const { return *decoder_; }
  double pack_ms() const { return pack_ms_; }

 private:
  struct Timed {
    double ms = 0, host_ms = 0;
    int emitted = 0;
    RoundShape shape;
  };
  struct Variant {
    std::size_t result;  // index into figures_.forced
    SyntheticDrafter drafter;
    DepthPolicy policy;
  };
  DecodeBench(const Loaded& loaded, const StepWatch& watch, const DecodePlan& plan);
  Result<std::unique_ptr<Slot>> open(Drafter* drafter, DrafterKind kind);
  Status prompts();
  Status plain_chunks();
  Status round_costs();
  Status forced_answers();
  Status compare(Variant& variant, bool plain_first);
  Status tick();
  Timed round(Slot& slot);
  Timed round_at(Slot& slot, SyntheticDrafter& drafter, int depth);
  Result<double> timed_plain(int tokens);
  /// Brings `slot` to `behind` tokens behind the plain sequence, untimed.
  Status catch_up(Slot& slot, SyntheticDrafter& drafter, int behind);
  /// Lets the plain sequence go `ahead` tokens ahead of `slot`, untimed.
  Status lead(const Slot& slot, int ahead);

  const Loaded& loaded_;
  const StepWatch& watch_;
  DecodePlan plan_;
  std::unique_ptr<Decoder> decoder_;
  BandwidthProbe probe_;
  std::vector<std::int32_t> prompt_;
  std::unique_ptr<Slot> plain_, free_, headed_;
  std::vector<std::optional<Answer>> answers_;  // by slot id: text is made as for a client
  SyntheticDrafter free_right_, free_wrong_, headed_right_;
  std::vector<std::unique_ptr<Variant>> variants_;
  DecodeFigures figures_;
  std::function<bool(int, int)> progress_;
  int done_ = 0, pieces_ = 0;
  double pack_ms_ = 0;
};

}  // namespace ft::cli
