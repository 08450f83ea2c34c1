#include "backends/split/state.h"

#include <algorithm>

namespace ft::split {
namespace {

std::size_t slot_size(const State& part) { return static_cast<std::size_t>(part.slot_bytes()); }

/// Bytes of a part's block, without the windowed ones unless `windows`.
std::size_t block_size(const State& part, bool windows) {
  return static_cast<std::size_t>(part.block_bytes() -
                                  (windows ? 0 : part.sliding_window_part().block_bytes));
}

/// Calls visit(part, its bytes) with consecutive pieces of `bytes`.
template <class Parts, class Bytes, class Size, class Visit>
void each_piece(Parts& parts, Bytes bytes, const Size& size, const Visit& visit) {
  for (auto& part : parts) {
    const std::size_t own = size(*part);
    if (own > 0) visit(*part, bytes.first(own));
    bytes = bytes.subspan(own);
  }
}

}  // namespace

void SplitState::copy_block(std::int32_t from, std::int32_t to) {
  for (auto& part : parts_) part->copy_block(from, to);
}
void SplitState::copy_slot(std::int32_t from, std::int32_t to) {
  for (auto& part : parts_) part->copy_slot(from, to);
}
std::int64_t SplitState::bytes() const {
  std::int64_t sum = 0;
  for (const auto& part : parts_) sum += part->bytes();
  return sum;
}
std::int64_t SplitState::block_bytes() const {
  std::int64_t sum = 0;
  for (const auto& part : parts_) sum += part->block_bytes();
  return sum;
}
std::int64_t SplitState::slot_bytes() const {
  std::int64_t sum = 0;
  for (const auto& part : parts_) sum += part->slot_bytes();
  return sum;
}
void SplitState::settle() const {
  for (const auto& part : parts_) part->settle();
}
void SplitState::read_block(std::int32_t block, std::span<std::byte> out) const {
  const bool windows = static_cast<std::int64_t>(out.size()) == block_bytes();
  each_piece(
      parts_, out, [&](const State& part) { return block_size(part, windows); },
      [&](const State& part, std::span<std::byte> piece) { part.read_block(block, piece); });
}
void SplitState::write_block(std::int32_t block, std::span<const std::byte> in) {
  const bool windows = static_cast<std::int64_t>(in.size()) == block_bytes();
  each_piece(
      parts_, in, [&](const State& part) { return block_size(part, windows); },
      [&](State& part, std::span<const std::byte> piece) { part.write_block(block, piece); });
}
void SplitState::read_slot(std::int32_t slot, std::span<std::byte> out) const {
  each_piece(parts_, out, slot_size,
             [&](const State& part, std::span<std::byte> piece) { part.read_slot(slot, piece); });
}
void SplitState::write_slot(std::int32_t slot, std::span<const std::byte> in) {
  each_piece(parts_, in, slot_size,
             [&](State& part, std::span<const std::byte> piece) { part.write_slot(slot, piece); });
}
SlidingWindowPart SplitState::sliding_window_part() const {
  SlidingWindowPart all;
  for (const auto& part : parts_) {
    const SlidingWindowPart own = part->sliding_window_part();
    all.positions = std::max(all.positions, own.positions);
    all.block_bytes += own.block_bytes;
  }
  return all;
}
void SplitState::release_sliding_window(std::int32_t block) {
  for (auto& part : parts_) part->release_sliding_window(block);
}
void SplitState::release_unused(std::span<const std::int32_t> blocks, std::span<const std::int32_t> slots) {
  for (auto& part : parts_) part->release_unused(blocks, slots);
}

}  // namespace ft::split
