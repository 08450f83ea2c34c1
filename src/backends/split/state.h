// The timelines of a program whose layers are on several parts: each part has the blocks and slots of its
// layers, under the same numbers. Owner: the caller of make_state. Thread: as the parts' states. Errors:
// the same as the parts'.
#pragma once

#include <memory>
#include <vector>

#include "program/backend.h"

namespace ft::split {

class SplitState final : public State {
 public:
  /// One state for each part.
  explicit SplitState(std::vector<std::unique_ptr<State>> parts) : parts_(std::move(parts)) {}
  State& part(int number) { return *parts_[static_cast<std::size_t>(number)]; }

  void copy_block(std::int32_t from, std::int32_t to) override;
  void copy_slot(std::int32_t from, std::int32_t to) override;
  std::int64_t bytes() const override;
  std::int64_t block_bytes() const override;
  std::int64_t slot_bytes() const override;
  void settle() const override;
  void read_block(std::int32_t block, std::span<std::byte> out) const override;
  void write_block(std::int32_t block, std::span<const std::byte> in) override;
  void read_slot(std::int32_t slot, std::span<std::byte> out) const override;
  void write_slot(std::int32_t slot, std::span<const std::byte> in) override;
  SlidingWindowPart sliding_window_part() const override;
  void release_sliding_window(std::int32_t block) override;
  void release_unused(std::span<const std::int32_t> blocks, std::span<const std::int32_t> slots) override;

 private:
  std::vector<std::unique_ptr<State>> parts_;
};

}  // namespace ft::split
