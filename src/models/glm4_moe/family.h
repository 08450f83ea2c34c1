// GLM-4.5, 4.6, 4.7 and Air: mixtures of experts with a sigmoid router and an MTP head. The
// mathematics follows transformers' modeling_glm4_moe and, for the head, its MtpLayer.
#pragma once

#include "models/family.h"

namespace ft::glm4_moe {

extern const Family kFamily;
extern const SyntheticModels kSynthetic;

}  // namespace ft::glm4_moe
