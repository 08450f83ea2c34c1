// Plans the drafts of every round of several slots: plan_batch(), and the rounds that keep its figures fresh.
// An account in plain rounds bounds the losses of drafts. It earns kEarn a round and the gains of drafted
// rounds over plain ones, and pays their losses. While it is empty the batch decodes plainly.
// While no slot drafts, a quarter of the slots try a draft now and then, all in one round, because they share
// its pass. All slots try one if that costs little more, if one of the last tries was right, or while other
// slots draft. Requests that begin together try one in their first round, when a drafter has nothing to catch
// up. Now and then a round goes as deep as it would if drafts cost half, so that costs of a bad moment are
// measured again.
// Costs are learnt by the size of rounds and acceptance by each slot, so wrong drafts of one text say nothing
// about another one.
#pragma once

#include <span>
#include <vector>

#include "speculation/depth.h"

namespace ft {

class BatchPlanner {
 public:
  explicit BatchPlanner(int max_slots)
      : depths_(static_cast<std::size_t>(max_slots)), drafters_(depths_.size()), probing_(depths_.size()) {}

  /// `read`: of all sequences, without drafts. The spans live until the next call.
  void plan(const CostModel& costs, std::span<const BatchSlot> slots, const ContextRead& read);
  /// The round as slot `index` finds it: the planned rows and passes of the others.
  RoundSoFar others(std::size_t index) const;
  /// The planned round is over: `rows` rows with `draft_steps` gave `tokens` tokens.
  void ended(const CostModel& costs, int rows, double draft_steps, int tokens);

 private:
  static constexpr int kIdle = 16;          // rounds without a draft before a slot tries one
  static constexpr int kRetry = 64;         // rounds between two that assume lower costs than measured
  static constexpr double kEarn = 0.012;    // plain rounds
  static constexpr double kMaxAccount = 1;  // plain rounds

  void plan_depths(const CostModel& costs, double hope);
  void plan_retry(const CostModel& costs);
  void plan_probes(const CostModel& costs);
  bool idles(std::size_t slot) const;
  double probe_steps(const CostModel& costs, std::size_t probes, double passes) const;

  std::span<const BatchSlot> slots_;
  ContextRead read_;
  BatchPlan plan_;
  std::vector<int> depths_;               // [slot of the round]
  std::vector<const Drafter*> drafters_;  // the same
  std::vector<char> probing_;             // the same: it tries a draft in this round
  int idle_ = 0;                          // rounds since slots were told to probe
  double account_ = 1;                    // plain rounds that drafts may lose
  int shallow_ = 0;                       // rounds since a deeper one was tried
  std::size_t probed_ = 1;                // slots that tried a draft when some last did
  std::size_t next_ = 0;                  // slot that probes next while none drafts
};

}  // namespace ft
