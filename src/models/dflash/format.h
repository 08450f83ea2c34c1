// DFlash block drafters in the layout of z-lab: a few Qwen3 layers that fill a block of mask tokens in one
// pass, whose keys and values of the past come from hidden rows of the target.
// Source: z-lab/dflash, the published DFlashDraftModel configs.
#pragma once

#include "models/draft_network.h"

namespace ft::dflash {

extern const DraftFormat kFormat;

}  // namespace ft::dflash
