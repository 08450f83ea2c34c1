// The distribution that `sample` draws from: the same penalties, bias, mask, temperature and filters, up to
// probabilities. Rejection sampling needs it of the target and of the drafter; tests check draws with it.
// Probabilities are exp(tempered logit) over their sum, in double, rounded to float once; those that round to
// 0 are left out. Temperature 0, and a row without a finite logit, give the selected token alone with
// probability 1. Cost: one exponential per token that the filters left, and a sort of those tokens if there
// is a filter. No allocation once `out` has reached its size.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "sampling/sample.h"

namespace ft {

struct Distribution {
  std::vector<std::pair<std::int32_t, float>> entries;  // ascending by token, probabilities > 0

  float probability(std::int32_t token) const;  // 0 for a token that is not listed
};

void distribution(std::span<const float> logits, std::span<const std::int32_t> ids, const SampleRow& row,
                  SampleScratch& scratch, Distribution& out, std::span<const std::int32_t> drafts = {});

}  // namespace ft
