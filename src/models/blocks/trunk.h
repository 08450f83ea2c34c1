// A target from embedding to sampling: the parts around the layers that every family has.
#pragma once

#include <functional>
#include <span>

#include "models/captured_layers.h"
#include "models/model.h"
#include "models/weight_source.h"

namespace ft::blocks {

struct Trunk {
  int layers = 0;
  float eps = 0;
  float embedding_scale = 1;
  float logit_scale = 1;               // multiplies the last row before the LM head
  float softcap = 0;                   // of logits; 0: none
  bool captures_before_norm = false;   // "hidden" is the stream before the final norm
  std::function<Row(Row, int)> layer;  // the stream after a layer
};

/// Sets embedding, lm_head and facts.tied of the model.
Status read_ends(Model& model, WeightSource& source, int vocabulary, int hidden);

/// Fills model.target: embed, the layers with the captures that drafters want, the final norm, the capture
/// "hidden", logits and sample. Failures are in source.status().
void build_trunk(Model& model, WeightSource& source, std::span<const CapturedLayers> captures,
                 const Trunk& trunk);

}  // namespace ft::blocks
