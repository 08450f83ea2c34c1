// The cost of rounds of several sequences, relative to the figures of one sequence. For each number
// of sequences and each range of rows it keeps the ratio of measured to expected time. The tiles of a GPU and
// the cores of a processor make steps in these costs that no straight line follows. They do not depend on
// texts, so a cost learnt from one text holds for all.
#pragma once

#include <array>

namespace ft {

class BatchCosts {
 public:
  /// Larger batches count as this one.
  static constexpr int kMaxSlots = 128;

  /// A round of `rows` rows of `slots` sequences took `ratio` times its expected time.
  void observe(int rows, int slots, double ratio);
  /// Measured to expected time of such a round: interpolated between two ranges that were seen, and taken
  /// from the nearest number of sequences that was seen.
  double ratio(int rows, int slots) const;
  /// How far to trust ratio(), up to 1: a first round may have been late by chance, and a cost that never
  /// occurs again is never corrected.
  double trust(int rows, int slots) const;
  /// Plain rounds of this many sequences were not measured often enough, or not recently.
  bool plain_due(int slots) const;

 private:
  static constexpr int kRanges = 10;
  struct Range {
    double rows = 0, ratio = 1;  // means of the rounds in it
    int seen = 0;
    void take(double rows, double ratio);
  };
  struct Batch {
    std::array<Range, kRanges> ranges{};
    int since_plain = 0;  // drafted rounds
    bool seen() const;
    double ratio(double rows) const;
  };
  static std::size_t range(int rows, int slots);
  static std::size_t place(int slots);

  std::array<Batch, kMaxSlots + 1> batches_{};  // [sequences]
};

}  // namespace ft
