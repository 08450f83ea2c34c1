// Gemma 4, text models of every size (31B, 26B-A4B, E4B, E2B). The mathematics follows transformers'
// modeling_gemma4 (Gemma4ForCausalLM and the text part of Gemma4ForConditionalGeneration).
#pragma once

#include "models/family.h"

namespace ft::gemma4 {

extern const Family kFamily;
extern const SyntheticModels kSynthetic;

}  // namespace ft::gemma4
