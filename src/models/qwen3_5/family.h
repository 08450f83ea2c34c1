// Qwen3.5, 3.6 and 3.8, text models of every size, dense and mixtures of experts, and Qwen3-Next, whose
// layers are the same under other names. The mathematics follows transformers' modeling_qwen3_5,
// modeling_qwen3_5_moe and modeling_qwen3_next and, for the MTP head, the published MTP layer.
#pragma once

#include "models/family.h"

namespace ft::qwen3_5 {

extern const Family kFamily, kNextFamily;
extern const SyntheticModels kSynthetic, kNextSynthetic;

}  // namespace ft::qwen3_5
