// gpt-oss: attention with sinks and alternating windows, and experts with biases and a clamped activation.
// The mathematics follows transformers' modeling_gpt_oss.
#pragma once

#include "models/family.h"

namespace ft::gpt_oss {

extern const Family kFamily;
extern const SyntheticModels kSynthetic;

}  // namespace ft::gpt_oss
