// EAGLE-3 drafters: one decoder layer that drafts token by token from the embedding of the newest token and a
// feature. The feature of a verified token comes from hidden rows of three layers of the target; the feature
// of a draft is the layer's output. Layouts: `speculators` and the original one (SafeAILab/EAGLE). Source: Li
// et al. 2025, EAGLE-3 (arXiv 2503.01840); vllm-project/speculators.
#pragma once

#include "models/draft_network.h"

namespace ft::eagle3 {

extern const DraftFormat kFormat;

}  // namespace ft::eagle3
