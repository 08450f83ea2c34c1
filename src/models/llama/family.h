// Llama 3 and the dense models that share its layer (SmolLM2, Qwen2.5, Qwen3, SmolLM3, Mistral, Granite), and
// Qwen3's mixtures of experts. A model type is a row of the table in config.cpp. The mathematics follows
// transformers' modeling files of these names.
#pragma once

#include "models/family.h"

namespace ft::llama {

extern const Family kFamily;
extern const SyntheticModels kSynthetic;

}  // namespace ft::llama
