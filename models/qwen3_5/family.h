// Qwen3.5 and Qwen3.6, dense text models of every size. The mathematics is that of transformers'
// modeling_qwen3_5 (Qwen3_5ForCausalLM) and, for the MTP head, of the published MTP layer.
#pragma once

#include "models/family.h"

namespace ft::qwen3_5 {

extern const Family kFamily;

}  // namespace ft::qwen3_5
