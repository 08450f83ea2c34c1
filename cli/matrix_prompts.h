// The prompts of the losslessness matrix: texts of many kinds and lengths, or random token ids for a model
// without a tokenizer, whose answers drafters find hard. Written for this project. Thread: any. Cost:
// encoding them. Errors: a tokenizer or template that fails, as an error of the model.
#pragma once

#include <vector>

#include "cli/loading.h"
#include "cli/matrix.h"

namespace ft::cli {

/// Different ones, whatever the count.
Result<std::vector<MatrixPrompt>> matrix_prompts(int count, const Loaded& loaded);

}  // namespace ft::cli
