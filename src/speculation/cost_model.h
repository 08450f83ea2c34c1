// The cost of a round on this machine: calibrated once (sched/calibration), then corrected by every round. An
// engine has one. Interference only ever makes a measurement slower, so an estimate follows a faster round
// quickly and a slower one slowly. Figures that no round has confirmed keep their ratio to a plain step when
// plain steps get faster. Costs never change an answer, only its drafting depth.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "drafters/drafter.h"
#include "speculation/batch_costs.h"
#include "speculation/cost_figures.h"

namespace ft {

/// Positions of key/value caches that the rows of a round read, in units of 1024.
struct ContextRead {
  double sequences = 0;  // the context of each sequence, once
  double drafts = 0;     // and once more for each of its drafts
};

/// The cost of a round, in any one unit of time. Rows have a cost by their number, measured for the rows of
/// one slot and extrapolated in a straight line. Each draft step costs the same. BatchCosts corrects the cost
/// of rounds of several slots by their numbers of slots and rows. A long context adds a cost for each
/// sequence that reads it, and for each draft that reads it again. Before any measurement the costs are a
/// guess. Draft steps are counted in passes of one network; the passes of others have a weight. More rows
/// never cost less, and never more than as many rounds of one row: figures beyond these bounds were measured
/// at a bad moment.
///
/// A figure follows faster rounds quickly and slower rounds slowly. Where the time of a round varies by
/// itself (the experts of its rows), the figure lies below the mean. round() adds the mean excess of rounds
/// with drafts over the mean excess of plain rounds, so a busy machine adds nothing.
class CostModel {
 public:
  static constexpr int kRows = kMaxDraftTokens + 1;  // of the largest round of one slot
  CostModel();

  /// A round of `rows` verified rows of `slots` sequences and `draft_steps` draft steps took `cost`.
  /// `drafter`: the drafter of these steps; -1: several drafters, or the one that steps are counted in.
  void observe(int rows, double draft_steps, double cost, int slots = 1, const ContextRead& read = {},
               int drafter = -1);
  /// A pass of this drafter costs as much as `weight` passes of the one that steps are counted in.
  void set_pass_cost(int drafter, double weight);
  double weight(const Drafter& drafter) const { return weight_[static_cast<std::size_t>(drafter.number())]; }
  /// Draft steps of `depth` drafts.
  double draft_steps(const Drafter& drafter, int depth) const {
    return weight_[static_cast<std::size_t>(drafter.number())] * drafter.draft_cost(depth);
  }
  /// Fills the row counts that were not measured from those that were. `measured[rows]` > 0 is a cost; [1]
  /// must be.
  void calibrate(const std::array<double, kRows + 1>& measured, double draft);
  /// The figures of one slot's rounds from calibrate() and the rounds since, in the unit that they were
  /// measured in; restore() sets them again.
  CostFigures figures() const { return {verify_, draft_, weight_}; }

  void restore(const CostFigures& figures);

  double verify(int rows, int slots = 1) const;
  /// A batch of this size needs a plain round to measure its cost. False before the first measurement.
  bool plain_due(int slots) const { return slots > 1 && measured_ && batches_.plain_due(slots); }
  /// The cost of reading a long context.
  double reading(const ContextRead& read) const {
    return segment_read_ * read.sequences + row_read_ * read.drafts;
  }
  double draft() const { return draft_; }
  /// The cost of a round of one slot in plain steps; `free`: its drafts need no network.
  double round(int depth, bool free) const { return round(depth + 1, free ? 0 : depth, 1); }
  /// The cost of any round in plain steps.
  double round(int rows, double draft_steps, int slots, const ContextRead& read = {}) const {
    const double mean = slots == 1 && rows > 1 ? 1 + std::clamp(late_drafted_ - late_plain_, 0.0, 1.0) : 1;
    return ((verify(rows, slots) + draft_ * draft_steps) * mean + reading(read)) / verify_[1];
  }

 private:
  double unlearnt(int rows, int slots) const;
  void observe_reading(double late, const ContextRead& read);
  void observe_mean(int rows, double late);
  double drafted_part(double change, std::size_t rows, double draft_steps, double expected) const;
  void scale_unseen();
  double unseen_part(std::size_t rows, double draft_steps) const;
  static double share(double late, int seen);

  std::array<double, kRows + 1> verify_{};  // [rows]
  double draft_ = 0.15;                     // one pass of the MTP head
  double beyond_ = 0.1;                     // a row more than kRows
  BatchCosts batches_;
  std::array<bool, kRows + 1> seen_{};  // [rows] a round has shown it since calibration
  bool draft_seen_ = false;
  double calibrated_ = 1;                    // a plain step, as calibration said
  double scaled_ = 1;                        // factor on the calibrated figures that no round has confirmed
  std::array<double, kMaxDrafters> weight_;  // [Drafter::number()]
  double segment_read_ = 0, row_read_ = 0;   // of 1024 positions
  int segments_seen_ = 0, rows_seen_ = 0;    // rounds that taught them
  double late_plain_ = 0;    // mean excess of rounds of one slot and row, as a part of the expected time
  double late_drafted_ = 0;  // the same with drafts
  int plain_rounds_ = 0, drafted_rounds_ = 0;
  bool measured_ = false;
};

}  // namespace ft
