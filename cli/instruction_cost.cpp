#include "cli/instruction_cost.h"

#include <fmt/format.h>

#include "models/model.h"

namespace ft::cli {
namespace {

std::int64_t state_floats(const DeltaRule& op) {
  return std::int64_t{op.value_heads} * op.value_dim * op.key_dim;
}

}  // namespace

std::string instruction_label(const Instruction& instruction) {
  std::string label(instruction_name(instruction));
  if (const auto* linear = std::get_if<Linear>(&instruction)) {
    label += fmt::format(" {} -> ", linear->in.width);
    for (std::size_t i = 0; i < linear->outs.size(); ++i) {
      label += fmt::format("{}{}", i > 0 ? "+" : "", linear->outs[i].width);
    }
  } else if (const auto* logits = std::get_if<Logits>(&instruction)) {
    const std::size_t outputs =
        logits->ids.empty() ? static_cast<std::size_t>(logits->head.rows) : logits->ids.size();
    label += fmt::format(" {} -> {}", logits->in.width, outputs);
  } else if (const auto* attend = std::get_if<Attend>(&instruction)) {
    label += fmt::format(" {}/{}x{}", attend->heads, attend->kv_heads, attend->head_dim);
  } else if (const auto* delta = std::get_if<DeltaRule>(&instruction)) {
    label += fmt::format(" {}/{}x{}", delta->key_heads, delta->value_heads, delta->value_dim);
  }
  return label;
}

std::int64_t instruction_bytes(const Instruction& instruction) {
  if (const auto* linear = std::get_if<Linear>(&instruction)) {
    std::int64_t bytes = 0;
    for (const Weight& weight : linear->weights) bytes += weight.bytes();
    return bytes;
  }
  if (const auto* logits = std::get_if<Logits>(&instruction)) {
    const std::int64_t rows = logits->head.rows;
    const auto read = logits->ids.empty() ? rows : static_cast<std::int64_t>(logits->ids.size());
    return rows > 0 ? logits->head.bytes() / rows * read : 0;
  }
  if (const auto* delta = std::get_if<DeltaRule>(&instruction)) {
    return 2 * static_cast<std::int64_t>(sizeof(float)) * state_floats(*delta);
  }
  return 0;
}

std::int64_t cache_bytes(const Instruction& instruction, std::int64_t context, int kv_bits) {
  const auto* attend = std::get_if<Attend>(&instruction);
  return attend == nullptr ? 0 : context * 2 * attend->kv_heads * kv_row_bytes(attend->head_dim, kv_bits);
}

std::int64_t bytes_per_token(const Program& program, std::int64_t context, int kv_bits) {
  std::int64_t bytes = 0;
  for (const Instruction& instruction : program.instructions()) {
    bytes += instruction_bytes(instruction) + cache_bytes(instruction, context, kv_bits);
  }
  return bytes;
}

}  // namespace ft::cli
