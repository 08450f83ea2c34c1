// The prompts of the losslessness matrix: texts of many kinds and lengths, or random token ids for a model
// without a tokenizer. If the model has a vision tower, every third prompt has pictures: one, two in a turn,
// or one in an earlier turn with tools. Answers are hard to draft. Written for this project.
#pragma once

#include <vector>

#include "cli/commands/loading.h"
#include "verify/matrix.h"

namespace ft::cli {

/// All prompts differ, for any count. The second one is the first with a picture.
Result<std::vector<MatrixPrompt>> matrix_prompts(int count, const LoadedModel& loaded);

}  // namespace ft::cli
