// Qwen3.5 and Qwen3.6, text models of every size, dense and mixtures of experts. The mathematics is that of
// transformers' modeling_qwen3_5 and modeling_qwen3_5_moe and, for the MTP head, of the published MTP layer.
#pragma once

#include "models/family.h"

namespace ft::qwen3_5 {

extern const Family kFamily;
extern const SyntheticModels kSynthetic;

}  // namespace ft::qwen3_5
