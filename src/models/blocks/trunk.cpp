#include "models/blocks/trunk.h"

#include <utility>

#include "models/blocks/layers.h"

namespace ft::blocks {

Status read_ends(Model& model, WeightSource& source, int vocabulary, int hidden) {
  model.embedding = source.matrix("embed_tokens", vocabulary, hidden);
  FT_ASSIGN(model.facts.tied, source.head_is_tied());
  model.lm_head = model.facts.tied ? model.embedding : source.matrix("lm_head", vocabulary, hidden);
  return {};
}

void build_trunk(Model& model, WeightSource& source, std::span<const CapturedLayers> captures,
                 const Trunk& trunk) {
  Program& p = model.target;
  LayerCaptures captured(p, captures);
  Row x = scale(p, p.embed(model.embedding), trunk.embedding_scale);
  captured.after(-1, x);
  for (int i = 0; i < trunk.layers; ++i) {
    x = trunk.layer(x, i);
    captured.after(i, x);
  }
  const Row last = norm(p, source, x, "norm", trunk.eps);
  p.capture("hidden", trunk.captures_before_norm ? x : last);
  Logits logits;
  logits.in = scale(p, last, trunk.logit_scale), logits.lm_head = model.lm_head;
  logits.softcap = trunk.softcap;
  p.logits(std::move(logits));
  p.sample();
}

}  // namespace ft::blocks
