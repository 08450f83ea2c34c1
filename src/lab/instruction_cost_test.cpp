#include "lab/instruction_cost.h"

#include <gtest/gtest.h>

#include "backends/registry.h"
#include "models/model.h"

namespace ft::instruction_cost_test {
namespace {

std::unique_ptr<Backend> host(int kv_bits) {
  return std::move(make_backend({.name = "cpu", .threads = 1, .settings = {{"kv-bits", kv_bits}}}).value());
}

TEST(InstructionCost, ASequenceGrowsByBlocksAndCountsEveryLayer) {
  const Result<Model> model = load_model("tests/golden/odd");
  ASSERT_TRUE(model.ok());
  // Two attention layers with one head of 32 each; keys and values in float16, or as codes with a float
  // scale.
  const auto bytes = [&](int context, int bits) {
    return sequence_bytes(model->target, context, *host(bits));
  };
  EXPECT_EQ(bytes(33, 16) - bytes(32, 16), 2 * 2 * kBlockRows * 32 * 2);
  EXPECT_EQ(bytes(33, 8) - bytes(32, 8), 2 * 2 * kBlockRows * (32 + 4));
  EXPECT_EQ(bytes(32, 16), bytes(1, 16));
  EXPECT_GT(bytes(1, 16), 3 * 3 * 48 * 32 * 4) << "three recurrent layers";
}

TEST(InstructionCost, OfASlidingWindowASequenceKeepsTheLastBlocks) {
  const Result<Model> loaded = load_model("tests/golden/gemma4/odd");
  ASSERT_TRUE(loaded.ok());
  const Model& model = *loaded;
  const auto cpu = host(16);
  const SlidingWindowPart windows = cpu->limits(model.target.layout()).sliding_window_part;
  ASSERT_GT(windows.block_bytes, 0);
  const auto bytes = [&](std::int64_t blocks) {
    return sequence_bytes(model.target, blocks * kBlockRows, *cpu);
  };
  const std::int64_t all = cpu->limits(model.target.layout()).block_bytes;
  EXPECT_EQ(bytes(2) - bytes(1), all);
  const std::int64_t far = windows.positions / kBlockRows + 8;
  EXPECT_EQ(bytes(far + 1) - bytes(far), all - windows.block_bytes);
}

TEST(InstructionCost, CachedBytesAreThoseOfTheBackendsFormat) {
  const Result<Model> model = load_model("tests/golden/odd");
  ASSERT_TRUE(model.ok());
  for (const Instruction& instruction : model->target.instructions()) {
    if (instruction_name(instruction) != "attend") {
      EXPECT_EQ(cache_bytes(instruction, 64, *host(16)), 0) << instruction_name(instruction);
      continue;
    }
    EXPECT_EQ(cache_bytes(instruction, 64, *host(16)), 64 * 2 * 32 * 2);
    EXPECT_EQ(cache_bytes(instruction, 64, *host(8)), 64 * 2 * (32 + 4));
  }
}

}  // namespace
}  // namespace ft::instruction_cost_test
