// What the head remembers of a sequence: the timeline of its true pairs, the pairs that no pass has seen yet,
// and the hidden rows of the last tokens, so that a sequence may go on from any of them.
#include <algorithm>
#include <utility>

#include "drafters/mtp.h"

namespace ft {

struct MtpDrafter::Memory final : DraftMemory {
  explicit Memory(Timeline saved) : timeline(std::move(saved)) {}
  std::int64_t low() const override { return first_recent + 1; }
  std::int64_t bytes() const override {
    return static_cast<std::int64_t>(tokens.size() * sizeof(tokens[0]) +
                                     (hidden.size() + recent.size()) * sizeof(float));
  }
  std::span<const std::int32_t> blocks() const override { return timeline.blocks(); }
  bool write_to(ByteSink& sink) const override {
    return put_value(sink, seen) && put_value(sink, first_recent) && put_list<std::int32_t>(sink, tokens) &&
           put_list<float>(sink, hidden) && put_list<float>(sink, recent) && timeline.write_to(sink);
  }

  Timeline timeline;
  std::vector<std::int32_t> tokens;
  std::vector<float> hidden, recent;
  std::int64_t seen = 0, first_recent = 0, skipped = 0;
};

std::int64_t MtpDrafter::memory_bytes(int hidden) {
  constexpr auto kTokens = static_cast<std::int64_t>(kPendingRows * sizeof(std::int32_t));
  return std::int64_t{kPendingRows + kRecentRows} * hidden * static_cast<std::int64_t>(sizeof(float)) +
         kTokens;
}

Result<std::unique_ptr<DraftMemory>> MtpDrafter::save(int slot) {
  const SlotState& state = slots_[static_cast<std::size_t>(slot)];
  if (!state.timeline || state.timeline->lost() || state.seen == 0) return std::unique_ptr<DraftMemory>();
  // A pair with the pending token belongs to the future, not to what is saved.
  const std::int64_t pairs = std::min(state.timeline->length(), state.seen - 1 - state.skipped);
  FT_ASSIGN(Timeline timeline, state.timeline->fork(pairs));
  auto memory = std::make_unique<Memory>(std::move(timeline));
  memory->tokens = state.tokens;
  memory->hidden = state.hidden;
  memory->recent = state.recent;
  memory->seen = state.seen;
  memory->skipped = state.skipped;
  memory->first_recent = std::max(state.first_recent, state.seen - kRecentRows);
  return std::unique_ptr<DraftMemory>(std::move(memory));
}

Status MtpDrafter::restore(int slot, const DraftMemory& saved, std::int64_t length) {
  const auto& memory = static_cast<const Memory&>(saved);  // by this drafter
  FT_ASSERT(length >= memory.low() && length <= memory.seen);
  close(slot);
  // What was skipped lies further back than the rows from which a sequence may begin.
  const std::int64_t pairs = length - 1 - memory.skipped;
  FT_ASSERT(pairs >= 0);
  const std::int64_t done = std::min(memory.timeline.length(), pairs);
  FT_ASSIGN(Timeline timeline, memory.timeline.fork(done));
  SlotState& state = slots_[static_cast<std::size_t>(slot)];
  const auto pending = static_cast<std::ptrdiff_t>(pairs - done);
  state.timeline = std::move(timeline);
  state.tokens.assign(memory.tokens.begin(), memory.tokens.begin() + pending);
  state.hidden.assign(memory.hidden.begin(), memory.hidden.begin() + pending * options_.hidden);
  state.recent = memory.recent;
  state.seen = length;
  state.skipped = memory.skipped;
  state.from_prompt = state.tokens.size();  // it is the new sequence's prompt
  state.first_recent = memory.first_recent;
  return {};
}

Result<std::unique_ptr<DraftMemory>> MtpDrafter::read_memory(ByteSource& source, std::int64_t length) {
  const Error unfit{Code::kCorrupt, "its bytes are no memory of a head"};
  std::int64_t seen = 0, first_recent = 0;
  std::vector<std::int32_t> tokens;
  std::vector<float> hidden, recent;
  if (!get_value(source, seen) || !get_value(source, first_recent) || !get_list(source, tokens) ||
      !get_list(source, hidden) || !get_list(source, recent)) {
    return unfit;
  }
  FT_ASSIGN(Timeline timeline, Timeline::read_from(pool_, source));
  const auto width = static_cast<std::size_t>(options_.hidden);
  // The pairs that are missing were skipped, further back than any row from which a sequence may begin.
  const auto skipped = seen - 1 - timeline.length() - static_cast<std::int64_t>(tokens.size());
  if (seen != length || skipped < 0 || first_recent < skipped || first_recent >= seen ||
      seen - first_recent > kRecentRows || tokens.size() > kPendingRows ||
      hidden.size() != tokens.size() * width || recent.size() != kRecentRows * width) {
    return unfit;
  }
  auto memory = std::make_unique<Memory>(std::move(timeline));
  memory->tokens = std::move(tokens);
  memory->hidden = std::move(hidden);
  memory->recent = std::move(recent);
  memory->seen = seen, memory->first_recent = first_recent, memory->skipped = skipped;
  return std::unique_ptr<DraftMemory>(std::move(memory));
}

}  // namespace ft
