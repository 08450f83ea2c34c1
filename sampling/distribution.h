// The distribution that `select` draws from: the same penalties, bias, mask, temperature and filters, up to
// probabilities. The ratio test needs it of the target and of the drafter; tests need it to judge draws.
// Probabilities are exp(tempered logit) over their sum, in double, rounded to float once; what rounds to 0 is
// left out. Temperature 0, and a row without any finite logit, give the selected token alone with
// probability 1. Cost: one exponential a token that the filters left, and a sort of them if there is a
// filter. No allocation once `out` has seen the size. Thread: pure but for the scratch and `out`.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "sampling/select.h"

namespace ft {

struct Distribution {
  std::vector<std::pair<std::int32_t, float>> entries;  // ascending by token, probabilities > 0

  float probability(std::int32_t token) const;  // 0 for a token that is not listed
};

void distribution(std::span<const float> logits, std::span<const std::int32_t> ids, const SelectRow& row,
                  SelectScratch& scratch, Distribution& out, std::span<const std::int32_t> drafts = {});

}  // namespace ft
