// The matrices of the target that a drafter shares or begins with, as float16: `embedding` [vocabulary,
// width] and, where it is another matrix, `lm_head`. One file for the training, whatever the format of the
// model.
#pragma once

#include <cstdint>
#include <string>

#include "models/model.h"
#include "program/instructions.h"

namespace ft::tune {

/// The instruction that makes the logits of a target; null: it makes none of its whole vocabulary.
const Logits* target_logits(const Program& target);
std::int64_t target_file_bytes(const Model& model);
Status write_target_file(const std::string& path, const Model& model);

}  // namespace ft::tune
