// Words: the *pending* token is the last emitted one, not yet in the target's timeline; *drafts* d_1..d_k
// follow it; row 0 of a verification holds the pending token, row i draft d_i; *selected* s_i is the token
// that the target chooses in row i. A draft d_{i+1} is *accepted* if it equals s_i and all drafts before it
// were; the first s_i that differs (or s_k) is the *bonus* token. Emitted are the accepted drafts and the
// bonus. Plain data in, plain data out, so a device can evaluate it after its sample instruction. Source: the
// greedy case of Leviathan et al. 2023; with the coupled noise of sampling/philox.h the same test is exact
// for sampled requests too.
#pragma once

#include <cstdint>
#include <span>

namespace ft {

/// Number of accepted drafts: 0..drafts.size(). selected has one token more than drafts.
inline int accept(std::span<const std::int32_t> drafts, std::span<const std::int32_t> sampled) {
  std::size_t accepted = 0;
  while (accepted < drafts.size() && drafts[accepted] == sampled[accepted]) ++accepted;
  return static_cast<int>(accepted);
}

}  // namespace ft
