#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "backends/metal/executable.h"
#include "base/assert.h"

namespace ft::metal {

/// Grows to twice the requested size, so that a growing context allocates rarely.
template <class T>
void reserve(const std::shared_ptr<Device>& device, Memory& memory, std::size_t count) {
  if (memory.data() != nullptr && memory.bytes() >= count * sizeof(T)) return;
  Result<Memory> made = Memory::make(device, std::max<std::size_t>(64, 2 * count) * sizeof(T));
  if (!made.ok()) throw std::runtime_error(made.error().message);
  memory = std::move(*made);
}

Place Scratch::take(const char* name, std::size_t bytes) {
  Memory& memory = memory_[name];
  reserve<std::byte>(device_, memory, bytes);
  return memory.at();
}

StepMemory::StepMemory(std::shared_ptr<Device> device, int max_rows)
    : device_(std::move(device)), max_rows_(max_rows) {}

Place StepMemory::places(const char* name, std::span<const std::int32_t> places) {
  Memory& memory = places_[name];
  reserve<std::byte>(device_, memory, places.size_bytes());
  std::memcpy(memory.data(), places.data(), places.size_bytes());
  return memory.at();
}

void StepMemory::fill(const StepArgs& args) {
  begin_step();
  rows_ = args.tokens.size();
  FT_ASSERT(static_cast<int>(rows_) <= max_rows_);
  reserve<std::int32_t>(device_, tokens_, rows_);
  std::ranges::copy(args.tokens, tokens_.as<std::int32_t>());  // kernels look up those by place
  FT_ASSERT(
      std::ranges::all_of(args.tokens, [](std::int32_t token) { return token >= -RoundTokens::kMaxTokens; }));
  reserve<SegmentArgs>(device_, segments_, args.segments.size());
  reserve<std::int32_t>(device_, logit_rows_, args.logit_rows.size());
  std::ranges::copy(args.logit_rows, logit_rows_.as<std::int32_t>());
  std::size_t blocks = 0;
  int row = 0;
  longest_ = 0;
  first_blocks_.clear();
  for (std::size_t i = 0; i < args.segments.size(); ++i) {
    const Segment& segment = args.segments[i];
    const SequenceView& sequence = segment.sequence;
    segments_.as<SegmentArgs>()[i] = {
        row,           segment.rows,    segment.confirmed, static_cast<int>(segment.position),
        sequence.slot, sequence.replay, sequence.tape,     segment.position == sequence.replay ? 1 : 0};
    first_blocks_.push_back(static_cast<std::int32_t>(blocks));
    blocks += sequence.blocks.size();
    row += segment.rows;
    longest_ = std::max(longest_, static_cast<int>(segment.position) + segment.rows);
  }
  reserve<std::int32_t>(device_, blocks_, blocks);
  for (std::size_t i = 0; i < args.segments.size(); ++i)
    std::ranges::copy(args.segments[i].sequence.blocks, blocks_.as<std::int32_t>() + first_blocks_[i]);
}

void StepMemory::fill_drafts(std::span<const SampleRow> samples, std::int64_t columns) {
  reserve<DraftRowArgs>(device_, drafts_, samples.size());
  int kept = 0;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    DraftRowArgs& row = drafts_.as<DraftRowArgs>()[i];
    row = draft_row(samples[i], columns);
    kept = std::max(kept, row.top_k);
  }
  kept_ = static_cast<unsigned>(kept);
}

Place StepMemory::seen(const StepArgs& args, const Attention& op) {
  std::size_t at = 0;
  while (at < seen_.size() && (seen_[at]->window != op.sliding_window || seen_[at]->causal != op.causal))
    ++at;
  if (at == seen_.size()) seen_.push_back(std::make_unique<Seen>(Seen{op.sliding_window, op.causal, {}}));
  Seen& seen = *seen_[at];
  if ((made_seen_ >> at & 1U) != 0) return seen.rows.at();
  made_seen_ |= std::uint64_t{1} << at;
  reserve<RowArgs>(device_, seen.rows, rows_);
  RowArgs* out = seen.rows.as<RowArgs>();
  for (std::size_t s = 0; s < args.segments.size(); ++s) {
    const Segment& segment = args.segments[s];
    for (int r = 0; r < segment.rows; ++r) {
      const int position = static_cast<int>(segment.position) + r;
      const int end = static_cast<int>(segment.position) + segment.rows;
      const int first = op.sliding_window > 0 ? std::max(0, position + 1 - op.sliding_window) : 0;
      *out++ = {position, first, op.causal ? position : end - 1, first_blocks_[s]};
    }
  }
  return seen.rows.at();
}

Place StepMemory::turns(const StepArgs& args, const Attention& op) {
  std::size_t at = 0;
  while (at < turns_.size() &&
         (turns_[at]->frequencies != op.inverse_frequencies || turns_[at]->axes != op.frequency_axes ||
          turns_[at]->scale != op.rotary_scale)) {
    ++at;
  }
  if (at == turns_.size()) {
    turns_.push_back(
        std::make_unique<Turns>(Turns{op.inverse_frequencies, op.frequency_axes, op.rotary_scale, {}}));
  }
  Turns& turns = *turns_[at];
  if ((made_turns_ >> at & 1U) != 0) return turns.values.at();
  made_turns_ |= std::uint64_t{1} << at;
  reserve<float>(device_, turns.values, rows_ * 2 * turns.frequencies.size() + 1);
  float* out = turns.values.as<float>();
  std::size_t row = 0;
  for (const Segment& segment : args.segments) {
    for (int r = 0; r < segment.rows; ++r, ++row) {
      for (std::size_t j = 0; j < turns.frequencies.size(); ++j) {
        const bool own_axes = !args.coordinates.empty() && !turns.axes.empty();
        const std::int64_t position = own_axes ? args.coordinates[row][turns.axes[j]] : segment.position + r;
        const float angle = static_cast<float>(position) * turns.frequencies[j];
        *out++ = std::cos(angle) * turns.scale;
        *out++ = std::sin(angle) * turns.scale;
      }
    }
  }
  return turns.values.at();
}

}  // namespace ft::metal
