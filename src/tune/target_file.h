// The matrices of the target that a drafter shares or begins with, as float16: `embedding` [vocabulary,
// width] and, where it is another matrix, `lm_head`. One file for the training, whatever the format of the
// model. The same for an MTP head that is to be trained further.
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

/// An MTP head of one layer that joins [embedding, hidden] and feeds back what the LM head reads: the form
/// that the training knows.
bool head_is_usual(const Program& head);
/// Its weights in float32, with norms that are final, by their published names.
Status write_head_file(const std::string& path, const Program& head);

}  // namespace ft::tune
