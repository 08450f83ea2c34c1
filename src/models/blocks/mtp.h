// The part of the MTP head that families share: a row that joins the next token's embedding with the hidden
// state of the token before it, decoder layers, a norm and the target's LM head.
#pragma once

#include <functional>

#include "models/model.h"
#include "models/weight_source.h"

namespace ft::blocks {

struct MtpHead {
  float eps = 0;
  bool hidden_first = false;          // the joined row is [hidden, embedding]
  bool captures_before_norm = false;  // the row before the last norm is fed back
  std::function<Row(Program&, Row)> layers;
};

/// Reads mtp.pre_fc_norm_embedding, mtp.pre_fc_norm_hidden, mtp.fc and mtp.norm. Sets mtp, draft_vocabulary
/// and draft_bits of the model, or says in mtp_head why there is none. `model.mtp_head` is usable.
void build_mtp_head(Model& model, WeightSource& source, const LoadOptions& options, const MtpHead& head);

}  // namespace ft::blocks
