// The config of an assistant of Gemma 4. Its text_config describes a Gemma whose layers have no keys and
// values. Errors: kUnsupported for unsupported designs, kInvalid for impossible values; both name the key.
#pragma once

#include "models/draft_network.h"
#include "models/gemma4/config.h"

namespace ft::assistant {

struct Config final : DraftConfig {
  gemma4::Config text;  // layers, heads, ropes
  int backbone = 0;     // width of the target's hidden rows
  int centroids = 0;    // clusters of tokens that logits are computed by; 0: logits of all tokens
  int chosen = 0;       // clusters of a row
  /// Queries turn by the position of the last committed row, not of the pending token: published
  /// programs differ.
  bool turns_by_last_row = false;

  static Result<Config> read(const format::ConfigFiles& files, const ModelFacts& target);
};

}  // namespace ft::assistant
