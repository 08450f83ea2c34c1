// The config of a block drafter: DFlash, DFlash2 or DSpark, in the layout of z-lab or of speculators. Errors:
// kUnsupported for unsupported designs, kCorrupt for impossible values; both name the key.
#pragma once

#include <string>
#include <vector>

#include "models/blocks/rope.h"
#include "models/draft_network.h"

namespace ft::dflash {

enum class Design : std::uint8_t {
  kDflash,   // one choice for each mask
  kDflash2,  // with convolutions around the sublayers, and a walk over candidates
  kDspark,   // DFlash with a bias by the token before
};
std::string_view design_name(Design design);

struct Config final : DraftConfig {
  Design design = Design::kDflash;
  int hidden = 0, layers = 0, heads = 0, kv_heads = 0, head_dim = 0, intermediate = 0, vocabulary = 0;
  double eps = 1e-6;
  blocks::Rope rope;            // theta 1e7
  int block = 16;               // rows of a trained block: the pending token and the masks
  std::int32_t mask_token = 0;  // its embedding replaces that of a token to be drafted
  bool from_anchor = false;     // row i drafts the token after its own position, not the one at it
  int draft_vocabulary = 0;     // rows of the drafter's LM head, if fewer than the vocabulary
  double embedding_scale = 1;   // of the target's embedding rows
  double multiplier = 1;        // of the logits, before the soft cap
  double softcap = 0;           // of the logits; 0: none
  /// By layer: positions that a row sees, 0 for all; whether rows of a block see only earlier rows of it.
  std::vector<int> windows;
  std::vector<char> causal;
  int taps = 0, groups = 0;      // of the convolutions; 0: none
  int rank = 0, candidates = 0;  // of the walk; 0: none

  /// Drafts of one block.
  int most_drafts() const { return from_anchor ? block : block - 1; }
  static Result<Config> read(const format::ConfigFiles& files, const ModelFacts& target);
};

}  // namespace ft::dflash
