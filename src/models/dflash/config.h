// The config of a DFlash drafter (DFlashDraftModel). Errors: kUnsupported for unsupported designs, kCorrupt
// for impossible values; both name the key.
#pragma once

#include <string>
#include <vector>

#include "models/blocks/rope.h"
#include "models/draft_network.h"

namespace ft::dflash {

struct Config final : DraftConfig {
  int hidden = 0, layers = 0, heads = 0, kv_heads = 0, head_dim = 0, intermediate = 0, vocabulary = 0;
  double eps = 1e-6;
  blocks::Rope rope;            // theta 1e7
  int block = 16;               // rows of a trained block: the pending token and the masks
  std::int32_t mask_token = 0;  // its embedding takes the place of a token that is to be drafted
  double softcap = 0;           // of the logits; 0: none
  /// By layer: positions that a row sees, 0 for all; whether rows of a block see only those before them.
  std::vector<int> windows;
  std::vector<char> causal;

  static Result<Config> read(const format::ConfigFiles& files, const ModelFacts& target);
};

}  // namespace ft::dflash
