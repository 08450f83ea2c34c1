// MTP heads that files hold as the layer after the last one, as in GLM and DeepSeek. They are renamed like
// other heads, so all other code knows one form: mtp.fc, mtp.pre_fc_norm_embedding, mtp.pre_fc_norm_hidden,
// mtp.layers.0.* and mtp.norm.
#pragma once

#include <string>
#include <string_view>

#include "format/checkpoint.h"

namespace ft {

/// The name of a stored tensor of a model of `layers` layers: its own, a name of the head, or empty for
/// tensors that repeat the target's embedding and LM head, or belong to a second head.
std::string name_of_head_layer(std::string_view stored, int layers);

/// A head in a separate file stays as it is, and the one of the shards is dropped.
void name_head_layer(format::Checkpoint& checkpoint, int layers);

}  // namespace ft
