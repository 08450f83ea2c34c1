// For tests of the policy: the costs of a machine given by two numbers, and drafters that only cost time.
#pragma once

#include <array>

#include "speculation/depth.h"

namespace ft {

/// In plain steps: the cost of one more row, and of a pass of a draft network.
inline CostModel costs_of(double row, double draft) {
  CostModel costs;
  std::array<double, CostModel::kRows + 1> measured{};
  for (std::size_t i = 1; i < measured.size(); ++i) measured[i] = 1 + row * static_cast<double>(i - 1);
  costs.calibrate(measured, draft);
  return costs;
}

/// The facts about a drafter that a depth depends on.
class Source final : public Drafter {
 public:
  Source(int number, int (*cost)(int depth)) : cost_(cost) { set_number(number); }
  std::string_view name() const override { return "source"; }
  Status open(int, std::int64_t) override { return {}; }
  void close(int) override {}
  Status observe(int, std::span<const std::int32_t>, bool) override { return {}; }
  int plan(const DraftSlot&) override { return 0; }
  int draft_cost(int depth) const override { return cost_(depth); }
  Status propose(std::span<DraftSlot*>, std::span<std::int32_t>) override { return {}; }

 private:
  int (*cost_)(int depth);
};

inline const Source kPasses(0, [](int depth) { return depth; });
inline const Source kFree(1, [](int) { return 0; });
inline const Source kBlock(2, [](int depth) { return depth > 0 ? 1 : 0; });

}  // namespace ft
