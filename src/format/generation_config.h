// The configuration keys that all families share: the ids that end an answer.
#pragma once

#include <vector>

namespace ft::format {

class KeyReader;

inline constexpr int kMaxVocabulary = 4'000'000;  // several times the largest published vocabulary

/// Appends the ids of `eos_token_id`, one or a list, without duplicates.
void add_end_ids(KeyReader& level, int vocabulary, std::vector<int>& ids);

}  // namespace ft::format
