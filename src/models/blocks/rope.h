// Rotary positions: one reader of their keys in config.json and one rule for the frequencies, for models and
// for drafters. The mathematics follows transformers' modeling_rope_utils; everything is computed in
// double and rounded once.
#pragma once

#include <cstdint>
#include <vector>

#include "format/key_reader.h"
#include "program/instructions.h"

namespace ft::blocks {

enum class RopeType : std::uint8_t { kDefault, kLinear, kLlama3, kYarn };

struct Rope {
  RopeType type = RopeType::kDefault;
  double theta = 1e4;
  int rotary_dim = 0;  // rotated dims of an attention head, even; 0: none
  double factor = 1;   // of every type but the default: divides frequencies
  /// Llama 3 and YaRN: positions that the model was trained for before its context was stretched.
  std::int64_t original_positions = 0;
  double low_frequency_factor = 1, high_frequency_factor = 4;  // Llama 3
  // YaRN
  double beta_fast = 32, beta_slow = 1;
  bool truncate = true;         // the correction range is cut to whole dimensions
  double attention_factor = 1;  // on cos and sin; 0.1 * ln(factor) + 1 unless given
  /// Ministral 3: the query at position p is multiplied by 1 + gain_beta * ln(1 + floor(p / gain_span)), for
  /// positions up to `gain_positions`. gain_span 0: no factor.
  double gain_beta = 0;
  std::int64_t gain_span = 0, gain_positions = 0;
};

/// The defaults for absent keys of config.json, and the sizes that the keys depend on.
struct RopeDefaults {
  double theta = 1e4;
  double partial = 1;  // fraction of head_dim that is rotated
  int head_dim = 0;
  std::int64_t positions = 0;  // max_position_embeddings
};

/// Reads rope_parameters, otherwise rope_scaling, with rope_theta and partial_rotary_factor next to it;
/// "type" is an alias of "rope_type". The keys may be given per type of layer, if all types agree.
/// `gain_positions` is the caller's. Failures are in text.status(): kUnsupported for a type whose
/// frequencies depend on the length of the text, or that is not known.
Rope read_rope(format::KeyReader& text, const RopeDefaults& defaults);

/// [rotary_dim / 2]
std::vector<float> inverse_frequencies(const Rope& rope);

/// Sets rotary, inverse_frequencies, rotary_scale and the gains of queries.
void set_rope(Attention& attend, const Rope& rope);

}  // namespace ft::blocks
