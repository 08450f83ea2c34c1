// Qwen3.5 and Qwen3.6, dense text models of every size: config and weights to programs. The mathematics is
// that of transformers' modeling_qwen3_5 (Qwen3_5ForCausalLM) and, for the MTP head, of the published MTP
// layer.
#pragma once

#include "models/model.h"

namespace ft {

/// Fills target, MTP head and what describes the model. `model.config` and `model.checkpoint` must be set.
Status build_qwen3_5(Model& model, const LoadOptions& options);

}  // namespace ft
