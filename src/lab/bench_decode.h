// The cost of decoding with a model, without a real prompt: plain steps, prompt chunks, rounds of 1 to 16
// rows with and without the drafts of a network, and answers at a given acceptance. The network is the
// drafter that was loaded from a folder, else the MTP head. Three sequences share one prompt: one decodes
// plainly and records the answer, two verify it. Every figure compares neighbours in time: a plain
// step next to each round, a plain chunk next to each drafted chunk. The caller's thread is the engine
// thread. A run takes seconds to minutes.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "drafters/synthetic.h"
#include "lab/bandwidth.h"
#include "lab/measured_model.h"
#include "lab/timed_backend.h"
#include "speculation/decoder.h"
#include "text/answer.h"

namespace ft {

struct DecodePlan {
  static constexpr int kRows = kMaxDraftTokens + 1;  // of the largest round
  static constexpr int kSizes[] = {2, 3, 4, 5, 6, 7, 8, 12, kRows};
  int prompt_tokens = 512;
  int prompts = 3;
  int cycles = 5;                              // every figure is the median over them
  int tokens = 32;                             // tokens per chunk
  std::vector<std::vector<double>> schedules;  // acceptance probability by position
  bool plain = false;                          // only prompts and plain chunks
  bool fixed = false;                          // also run every schedule at its fixed depths, besides auto
  std::uint64_t seed = 0;                      // of the prompt and of the perturbed drafts
  int threads = 0;                             // of the bandwidth probe
  bool penalised = false;                      // all answers have a presence penalty of 1.5
  bool masked = false;                         // every row has a mask, which allows all tokens
};

struct ForcedResult {
  std::vector<double> schedule;
  int depth = -1;  // auto
  std::vector<double> ratios, tokens_per_second;
  std::int64_t rounds = 0, emitted = 0, drafted = 0;
};

struct DecodeFigures {
  double bytes_per_token = 0;
  std::int64_t context_first = 0, context_last = 0;  // context of the plain chunks
  std::vector<double> bandwidths;                    // GB/s, around the plain chunks
  std::vector<double> plain_per_second, limit_shares, prompt_per_second;
  /// By rows, in units of plain steps.
  std::array<std::vector<double>, DecodePlan::kRows + 1> round_cost, drafted_cost;
  std::string network;                       // the network of these drafts; empty: the model has none
  std::vector<double> rejected_cost;         // cost of four rows whose drafts are all rejected
  std::vector<double> host_us, host_shares;  // time of a round outside the backend
  std::vector<ForcedResult> forced;
};

class DecodeBench {
 public:
  /// `loaded` and `watch`, which times its backend, must outlive the bench.
  static Result<std::unique_ptr<DecodeBench>> make(const MeasuredModel& loaded, const StepWatch& watch,
                                                   const DecodePlan& plan);

  /// Calls `progress(done, all)` between pieces of work; false stops with kCancelled.
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
  DecodeBench(const MeasuredModel& loaded, const StepWatch& watch, const DecodePlan& plan);
  /// Drafts at this acceptance, with the work of the network.
  SyntheticDrafter drafting(std::vector<double> schedule, std::uint64_t seed) const;
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
  /// Moves `slot` to `lag` tokens before the end of the plain sequence, untimed.
  Status catch_up(Slot& slot, SyntheticDrafter& drafter, int lag);
  /// Moves the plain sequence `ahead` tokens past `slot`, untimed.
  Status lead(const Slot& slot, int ahead);

  const MeasuredModel loaded_;
  const StepWatch& watch_;
  DecodePlan plan_;
  std::unique_ptr<Decoder> decoder_;
  BandwidthProbe probe_;
  std::vector<std::int32_t> prompt_;
  std::unique_ptr<Slot> plain_, free_, headed_;
  std::vector<std::optional<Answer>> answers_;  // by slot id: text is decoded as for a client
  SyntheticDrafter free_right_, free_wrong_, headed_right_;
  std::vector<std::unique_ptr<Variant>> variants_;
  DecodeFigures figures_;
  std::function<bool(int, int)> progress_;
  int done_ = 0, pieces_ = 0;
  double pack_ms_ = 0;
};

}  // namespace ft
