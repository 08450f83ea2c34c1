// Whether a round of several slots drafts at all: compares tokens per millisecond of such rounds with drafts
// and without. The cost model says how deep one slot should draft. Where processors and not memory are the
// limit, a batch may lose by every draft, and only measuring both tells. A batch of a new size begins with a
// few plain rounds, which teach the cost model too. Then plain rounds are tried now and then while drafts
// win, and a few drafted ones while they lose, so neither figure grows old.
#pragma once

#include <array>

namespace ft {

class BatchChoice {
 public:
  /// For the next round of `slots` sequences. One slot always may.
  bool drafts(int slots);
  /// A round of `slots` sequences emitted `tokens` in `ms`; `drafted`: it verified drafts.
  void observe(int slots, bool drafted, int tokens, double ms);

 private:
  static constexpr int kSlots = 64;        // larger batches are taken for this one
  static constexpr int kTrial = 12;        // drafted rounds that are tried
  static constexpr int kPlainTrial = 4;    // plain rounds that are tried
  static constexpr int kWinning = 120;     // drafted rounds between two plain trials
  static constexpr int kFirstLosing = 48;  // plain rounds before drafts are tried again; doubled each time
  static constexpr double kGain = 1.02;    // that drafts must bring: less is the measurement's noise
  static constexpr int kLastLosing = 1536;

  /// Sums of recent rounds; older ones count less and less.
  struct Rate {
    double tokens = 0, ms = 0;
    int seen = 0;
    void add(int more_tokens, double more_ms);
    double value() const { return ms > 0 ? tokens / ms : 0; }
  };
  struct Batch {
    Rate plain, drafted;
    bool drafting = false;
    int left = kPlainTrial;  // rounds until the other way is tried or the two are compared
    int losing = kFirstLosing;
    bool trial = false;  // of the way that was worse when last compared
  };
  Batch& of(int slots);

  std::array<Batch, kSlots + 1> batches_{};  // [slots]
};

}  // namespace ft
