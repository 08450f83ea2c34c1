// What every family's configuration files say in the same keys: the ids that end an answer, and the sampling
// parameters that generation_config.json suggests.
#pragma once

#include <optional>
#include <vector>

namespace ft::format {

class KeyReader;

/// What generation_config.json suggests; a request may override each.
struct SamplingDefaults {
  std::optional<bool> do_sample;
  std::optional<double> temperature;
  std::optional<int> top_k;
  std::optional<double> top_p;
  std::optional<double> min_p;
  std::optional<double> repetition_penalty;
};

inline constexpr int kMaxVocabulary = 4'000'000;  // several times that of the largest published model

SamplingDefaults read_sampling_defaults(KeyReader& generation);

/// Appends the ids of `eos_token_id`, one or a list, without duplicates.
void add_end_ids(KeyReader& level, int vocabulary, std::vector<int>& ids);

}  // namespace ft::format
