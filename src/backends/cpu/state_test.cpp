#include "backends/cpu/state.h"

#include <algorithm>
#include <gtest/gtest.h>

namespace ft::cpu::state_test {
namespace {

constexpr int kBlocks = 64, kSlots = 6;

std::unique_ptr<State> some_state() {
  StateLayout layout;
  layout.caches = {{.kv_heads = 1, .head_dim = 24}, {.kv_heads = 2, .head_dim = 64}};
  layout.conv_states = {{.width = 72, .kernel_width = 4}};
  return std::move(*CpuState::make(layout, {.slots = kSlots, .blocks = kBlocks}, 16));
}

std::vector<std::byte> filled(std::int64_t bytes, std::int32_t number) {
  return std::vector<std::byte>(static_cast<std::size_t>(bytes), static_cast<std::byte>(number + 1));
}

TEST(CpuState, WhatIsGivenBackTakesNothingFromItsNeighbours) {
  const std::unique_ptr<State> state = some_state();
  for (std::int32_t block = 0; block < kBlocks; ++block) {
    state->write_block(block, filled(state->block_bytes(), block));
  }
  for (std::int32_t slot = 0; slot < kSlots; ++slot) {
    state->write_slot(slot, filled(state->slot_bytes(), slot));
  }
  const std::vector<std::int32_t> blocks = {40, 3, 4, 5, 63, 20, 19, 18, 17, 16, 7}, slots = {2, 5};
  state->release_unused(blocks, slots);
  for (std::int32_t block = 0; block < kBlocks; ++block) {
    if (std::find(blocks.begin(), blocks.end(), block) != blocks.end()) continue;
    std::vector<std::byte> found(static_cast<std::size_t>(state->block_bytes()));
    state->read_block(block, found);
    EXPECT_EQ(found, filled(state->block_bytes(), block)) << "block " << block;
  }
  for (const std::int32_t slot : {0, 1, 3, 4}) {
    std::vector<std::byte> found(static_cast<std::size_t>(state->slot_bytes()));
    state->read_slot(slot, found);
    EXPECT_EQ(found, filled(state->slot_bytes(), slot)) << "slot " << slot;
  }
}

TEST(CpuState, WhatWasGivenBackCanBeUsedAgain) {
  const std::unique_ptr<State> state = some_state();
  std::vector<std::int32_t> all(kBlocks);
  for (std::int32_t block = 0; block < kBlocks; ++block) all[static_cast<std::size_t>(block)] = block;
  state->release_unused(all, {});
  state->write_block(9, filled(state->block_bytes(), 9));
  std::vector<std::byte> found(static_cast<std::size_t>(state->block_bytes()));
  state->read_block(9, found);
  EXPECT_EQ(found, filled(state->block_bytes(), 9));
}

TEST(CpuState, WhatAWindowNoLongerSeesIsZeroAndTheRestStays) {
  StateLayout layout;
  layout.caches = {{.kv_heads = 2, .head_dim = 64, .sliding_window = 100},
                   {.kv_heads = 1, .head_dim = 24},
                   {.kv_heads = 1, .head_dim = 128, .sliding_window = 40}};
  const StateOptions options{.slots = kSlots, .blocks = kBlocks, .releases_sliding_windows = true};
  const std::unique_ptr<State> state = std::move(*CpuState::make(layout, options, 16));
  const SlidingWindowPart part = state->sliding_window_part();
  EXPECT_EQ(part.positions, 100);
  EXPECT_EQ(part.block_bytes, 2 * kBlockRows * 2 * (2 * 64 + 128));
  for (std::int32_t block = 0; block < kBlocks; ++block)
    state->write_block(block, filled(state->block_bytes(), block));
  for (const std::int32_t block : {0, 7, 8, 63}) state->release_sliding_window(block);
  for (std::int32_t block = 0; block < kBlocks; ++block) {
    std::vector<std::byte> found(static_cast<std::size_t>(state->block_bytes())), expected;
    state->read_block(block, found);
    expected = filled(state->block_bytes(), block);
    if (block == 0 || block == 7 || block == 8 || block == 63)
      std::fill(expected.end() - part.block_bytes, expected.end(), std::byte{0});
    EXPECT_EQ(found, expected) << "block " << block;
  }
  const auto beside = filled(state->block_bytes() - part.block_bytes, 30);
  state->write_block(7, beside);
  std::vector<std::byte> found(beside.size());
  state->read_block(7, found);
  EXPECT_EQ(found, beside) << "a shorter span leaves the windowed part out";
}

TEST(CpuState, AWindowedPartMayBeLargerThanTheMachine) {
  StateLayout layout;
  layout.caches = {{.kv_heads = 16, .head_dim = 256, .sliding_window = 1024}};
  StateOptions options{.slots = 1, .blocks = 1 << 18, .releases_sliding_windows = true};
  const auto state = CpuState::make(layout, options, 16);
  ASSERT_TRUE(state.ok()) << state.error().message;
  const auto bytes = filled((*state)->block_bytes(), 5);
  (*state)->write_block((1 << 18) - 1, bytes);
  std::vector<std::byte> found(bytes.size());
  (*state)->read_block((1 << 18) - 1, found);
  EXPECT_EQ(found, bytes);
}

}  // namespace
}  // namespace ft::cpu::state_test
