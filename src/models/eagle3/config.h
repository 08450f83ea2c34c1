// The config of an EAGLE-3 drafter, in the layout of `speculators` (sizes in transformer_layer_config) or the
// original one (sizes at top level). Errors: kUnsupported for unsupported designs, kInvalid for values that
// are impossible or belong to another target; both name the key.
#pragma once

#include "models/blocks/rope.h"
#include "models/draft_network.h"

namespace ft::eagle3 {

struct Config final : DraftConfig {
  int hidden = 0, layers = 1, heads = 0, kv_heads = 0, head_dim = 0, intermediate = 0;
  int vocabulary = 0;        // of the target
  int draft_vocabulary = 0;  // tokens that can be drafted; all of them: no map
  int target_hidden = 0;     // width of a captured row
  double eps = 1e-6;
  blocks::Rope rope;
  int window = 0;                     // of its layers; 0: all
  bool norm_before_residual = false;  // the residual is the normed feature
  bool norm_before_fc = false;        // one norm over the captured rows side by side
  bool fc_norm = false;               // a norm for each captured row; excludes norm_before_fc
  bool norm_output = false;           // the fed-back feature has passed the final norm
  bool own_embedding = false;         // its embedding was trained and differs from the target's

  static Result<Config> read(const format::ConfigFiles& files, const ModelFacts& target);
};

}  // namespace ft::eagle3
