// Block drafters: a few Qwen3 layers that fill a block of mask tokens in one pass. The keys and values of the
// past come from hidden rows of the target. Sources: z-lab/dflash (DFlash, DFlash2), vllm-project/speculators
// (both, and DSpark).
#pragma once

#include "models/draft_network.h"

namespace ft::dflash {

extern const DraftFormat kFormat;
extern const SyntheticDraft kSynthetic;

}  // namespace ft::dflash
