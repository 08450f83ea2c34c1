#include "backends/cpu/state.h"

#include <algorithm>
#include <gtest/gtest.h>

namespace ft::cpu {
namespace {

constexpr int kBlocks = 64, kSlots = 6;

std::unique_ptr<State> some_state() {
  StateLayout layout;
  layout.caches = {{.kv_heads = 1, .head_dim = 24}, {.kv_heads = 2, .head_dim = 64}};
  layout.windows = {{.width = 72, .kernel_width = 4}};
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
  state->give_back(blocks, slots);
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
  state->give_back(all, {});
  state->write_block(9, filled(state->block_bytes(), 9));
  std::vector<std::byte> found(static_cast<std::size_t>(state->block_bytes()));
  state->read_block(9, found);
  EXPECT_EQ(found, filled(state->block_bytes(), 9));
}

}  // namespace
}  // namespace ft::cpu
