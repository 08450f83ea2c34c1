#include "lab/instruction_cost.h"

#include <fmt/format.h>

#include "program/row_source.h"
#include "timeline/timeline.h"

namespace ft {
namespace {

/// The cost of an instruction, from its description.
class Cost final : public Describer {
 public:
  void matrix(const Weight& weight, std::int64_t rows, std::int64_t cols, std::int64_t rows_read) override {
    if (weight.rows > 0) bytes += least_bytes(weight) / weight.rows * rows_read;
    outputs += fmt::format("{}{}", outputs.empty() ? "" : "+", rows_read < rows ? rows_read : rows);
    if (inputs == 0) inputs = cols;
  }
  void experts(std::span<const Weight> weights, std::int64_t rows, std::int64_t cols, int chosen) override {
    if (!weights.empty()) bytes += least_bytes(weights.front()) * chosen;
    outputs += fmt::format("{}{}x{}", outputs.empty() ? "" : "+", chosen, rows);
    if (inputs == 0) inputs = cols;
  }
  void cache(int, int kv_heads, int head_dim) override {
    cached_heads = kv_heads;
    cached_dim = head_dim;
  }
  void state(std::int64_t floats) override { bytes += 2 * static_cast<std::int64_t>(sizeof(float)) * floats; }
  void shape(std::string_view text) override { short_shape = text; }

  std::int64_t bytes = 0, inputs = 0;
  int cached_heads = 0, cached_dim = 0;
  std::string outputs, short_shape;
};

Cost cost_of(const Instruction& instruction) {
  Cost cost;
  describe(instruction, cost);
  return cost;
}

}  // namespace

std::string instruction_label(const Instruction& instruction) {
  const Cost cost = cost_of(instruction);
  const std::string_view name = instruction_name(instruction);
  if (!cost.outputs.empty()) return fmt::format("{} {} -> {}", name, cost.inputs, cost.outputs);
  return cost.short_shape.empty() ? std::string(name) : fmt::format("{} {}", name, cost.short_shape);
}

std::int64_t instruction_bytes(const Instruction& instruction) { return cost_of(instruction).bytes; }

std::int64_t cache_bytes(const Instruction& instruction, std::int64_t context, const Backend& backend) {
  const Cost cost = cost_of(instruction);
  if (cost.cached_heads == 0) return 0;
  StateLayout layout;
  layout.caches = {{cost.cached_heads, cost.cached_dim}};
  return context * backend.limits(layout).block_bytes / kBlockRows;
}

std::int64_t bytes_per_token(const Program& program, std::int64_t context, const Backend& backend) {
  std::int64_t bytes = 0;
  for (const Instruction& instruction : program.instructions()) {
    bytes += instruction_bytes(instruction) + cache_bytes(instruction, context, backend);
  }
  return bytes;
}

std::int64_t sequence_bytes(const Program& program, std::int64_t context, const Backend& backend) {
  Occupancy one;
  one.blocks = (context + kBlockRows - 1) / kBlockRows;
  one.window_blocks = TimelinePool::window_blocks(backend.limits(program.layout()).sliding_window_part, 0);
  const ProgramMemory memory = backend.memory_for(program, one);
  return memory.key_values + memory.states;
}

}  // namespace ft
