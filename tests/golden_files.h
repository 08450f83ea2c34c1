// Shared by the tests against golden files: the choice of a row of logits, and a chain of drafts after a
// prefix of a text.
#pragma once

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json_fwd.hpp>

#include "speculation/decoder.h"

namespace ft::test {

template <class Json = nlohmann::json>
Json read_json(const std::filesystem::path& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file.good()) << path;
  return Json::parse(file);
}

inline constexpr double kRefError = 2e-3;  // error of a logit, ref against float32 transformers

/// The choice of a row of logits, and its margin.
struct Choice {
  std::int32_t token = 0;
  double logit = 0, logsumexp = 0;
};

inline Choice choose(std::span<const float> logits) {
  const auto highest = std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float value : logits)
    sum += std::exp(static_cast<double>(value) - static_cast<double>(*highest));
  return {static_cast<std::int32_t>(highest - logits.begin()), *highest, *highest + std::log(sum)};
}

/// Drafts after tokens[0, pending]; the slot has already observed a part of them.
inline std::vector<std::int32_t> drafts_after(Decoder& decoder, Slot& slot,
                                              std::span<const std::int32_t> tokens, std::int64_t pending,
                                              int depth) {
  while (slot.timeline->length() < pending) {
    const auto missing = static_cast<int>(pending - slot.timeline->length());
    EXPECT_TRUE(decoder.prefill(slot, std::min(missing, 64)).ok());
  }
  const SamplingParams greedy;
  std::vector<std::int32_t> round_tokens(kMaxDraftTokens);
  DraftSlot draft;
  draft.id = slot.id;
  draft.tokens = tokens.first(static_cast<std::size_t>(pending) + 1);
  draft.sample.sampler = &greedy;
  draft.sample.position = pending + 1;
  draft.depth = depth;
  draft.drafts = round_tokens;
  draft.target_blocks = slot.timeline->blocks(), draft.target_rows = slot.timeline->length();
  DraftSlot* one = &draft;
  EXPECT_TRUE(slot.drafter->propose({&one, 1}, round_tokens).ok());
  EXPECT_EQ(draft.drafted, depth);
  slot.drafter->collect();
  return {draft.drafts.begin(), draft.drafts.begin() + draft.drafted};
}

}  // namespace ft::test
