// The memory of the MTP head for a sequence: the timeline of its true pairs, the pairs that no pass has seen
// yet, and the hidden rows of the last tokens, so that a sequence may continue from any of them.
#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "drafters/mtp.h"

namespace ft {
namespace {

/// A row is a pair of a token and the next one's hidden row; `skipped` of them are missing before it.
std::string kind_of(int drafter, std::int64_t skipped) {
  return fmt::format("draft {} {}", drafter, skipped);
}

}  // namespace

/// Its rows are the hidden rows of tokens [seen - rows, seen), in an area of the drafter's store.
struct MtpDrafter::Memory final : DraftMemory {
  Memory(MtpDrafter& drafter, Timeline saved) : owner(drafter), timeline(std::move(saved)) {}
  ~Memory() override { owner.free_areas_.push_back(area); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  int drafter() const override { return owner.number(); }
  std::int64_t low() const override { return first_recent + 1; }
  std::int64_t bytes() const override {
    const auto row_bytes = static_cast<std::int64_t>(sizeof(float)) * owner.options_.hidden;
    return static_cast<std::int64_t>(tokens.size() * sizeof(tokens[0])) + rows * row_bytes;
  }
  std::span<const std::int32_t> blocks() const override { return timeline.blocks(); }
  bool write_to(ByteSink& sink) const override;

  std::int32_t place(std::int64_t token) const {
    return static_cast<std::int32_t>(area * kMemoryRows + token - (seen - rows));
  }

  MtpDrafter& owner;
  Timeline timeline;
  std::vector<std::int32_t> tokens;  // of the pending pairs
  std::int32_t area = 0, rows = 0;
  std::int64_t seen = 0, first_recent = 0, skipped = 0;
};

std::int64_t MtpDrafter::memory_bytes(int hidden) {
  constexpr auto kTokens = static_cast<std::int64_t>(kPendingRows * sizeof(std::int32_t));
  return std::int64_t{kMemoryRows} * hidden * static_cast<std::int64_t>(sizeof(float)) + kTokens;
}

/// A memory with an area that holds no rows yet.
Result<std::unique_ptr<MtpDrafter::Memory>> MtpDrafter::new_memory(Timeline timeline, std::int64_t seen,
                                                                   std::int64_t skipped,
                                                                   std::int64_t first_recent,
                                                                   std::vector<std::int32_t> tokens) {
  if (free_areas_.empty()) return Error{Code::kExhausted, "no memory for the state of the MTP head"};
  const std::int32_t area = free_areas_.back();
  auto memory = std::make_unique<Memory>(*this, std::move(timeline));
  free_areas_.pop_back();
  memory->area = area;
  memory->tokens = std::move(tokens);
  memory->seen = seen, memory->skipped = skipped, memory->first_recent = first_recent;
  const auto pending = static_cast<std::int64_t>(memory->tokens.size());
  memory->rows = static_cast<std::int32_t>(std::max(pending + 1, seen - first_recent));
  return memory;
}

Result<std::unique_ptr<DraftMemory>> MtpDrafter::save(int slot) {
  const SlotState& state = slots_[static_cast<std::size_t>(slot)];
  if (!state.timeline || state.timeline->lost() || state.seen == state.first) {
    return std::unique_ptr<DraftMemory>();
  }
  // A sequence that continues here has the images' keys and values but not their rows: no image pair may
  // wait.
  if (state.positions != nullptr) FT_TRY(flush(slot, state.boundary_paired && !state.tokens.empty() ? 1 : 0));
  // A pair with the pending token is not saved: its hidden row is of a later round.
  const std::int64_t pairs = std::min(state.timeline->length(), state.seen - 1 - state.skipped);
  std::vector<std::int32_t> tokens = state.tokens;
  if (state.boundary_paired && !tokens.empty()) tokens.pop_back();
  FT_ASSIGN(Timeline timeline, state.timeline->fork(pairs));
  FT_ASSIGN(std::unique_ptr<Memory> memory,
            new_memory(std::move(timeline), state.seen, state.skipped,
                       std::max(state.first_recent, state.seen - kRecentRows), std::move(tokens)));
  captured_.save(slot, memory->seen - memory->rows, memory->rows, *memory_rows_,
                 memory->place(memory->seen - memory->rows));
  return std::unique_ptr<DraftMemory>(std::move(memory));
}

Status MtpDrafter::restore(int slot, const DraftMemory& saved, std::int64_t length) {
  const auto& memory = static_cast<const Memory&>(*saved.part(number()));
  FT_ASSERT(length >= memory.low() && length <= memory.seen);
  close(slot);
  // The skipped rows are before the rows from which a sequence may begin.
  const std::int64_t pairs = length - 1 - memory.skipped;
  FT_ASSERT(pairs >= 0);
  const std::int64_t done = std::min(memory.timeline.length(), pairs);
  FT_ASSIGN(Timeline timeline, memory.timeline.fork(done));
  SlotState& state = slots_[static_cast<std::size_t>(slot)];
  state.timeline = std::move(timeline);
  state.timeline->reserve(options_.context + options_.max_depth + 1);
  state.tokens.assign(memory.tokens.begin(),
                      memory.tokens.begin() + static_cast<std::ptrdiff_t>(pairs - done));
  state.seen = length;
  state.skipped = memory.skipped;
  state.from_prompt = state.tokens.size();  // it is the new sequence's prompt
  state.first_recent = memory.first_recent;
  const std::int64_t first = memory.seen - memory.rows;
  captured_.restore(slot, first, static_cast<std::int32_t>(length - first), *memory_rows_,
                    memory.place(first));
  return {};
}

/// The three numbers, the pending pairs' tokens and rows, the last kRecentRows rows (of token p at
/// p % kRecentRows; zeros where the memory has none), the timeline.
bool MtpDrafter::Memory::write_to(ByteSink& sink) const {
  const auto width = static_cast<std::size_t>(owner.options_.hidden);
  std::vector<float> all(static_cast<std::size_t>(rows) * width);
  owner.memory_rows_->read(place(seen - rows), all);
  const auto row_of = [&](std::int64_t token) {
    return std::span<const float>(all).subspan(static_cast<std::size_t>(token - (seen - rows)) * width,
                                               width);
  };
  const std::int64_t first = seen - 1 - static_cast<std::int64_t>(tokens.size());
  std::vector<float> hidden, recent(kRecentRows * width);
  for (std::int64_t token = first; token < seen - 1; ++token) {
    hidden.insert(hidden.end(), row_of(token).begin(), row_of(token).end());
  }
  for (std::int64_t token = std::max(seen - rows, seen - kRecentRows); token < seen; ++token) {
    std::ranges::copy(row_of(token), recent.begin() + (token % kRecentRows) * owner.options_.hidden);
  }
  return put_value(sink, seen) && put_value(sink, first_recent) && put_value(sink, skipped) &&
         put_list<std::int32_t>(sink, tokens) && put_list<float>(sink, hidden) &&
         put_list<float>(sink, recent) && timeline.write_to(sink, {kind_of(drafter(), skipped), skipped + 1});
}

Result<std::unique_ptr<DraftMemory>> MtpDrafter::read_memory(ByteSource& source, std::int64_t length) {
  const Error unfit{Code::kCorrupt, "its bytes are not the state of an MTP head"};
  std::int64_t seen = 0, first_recent = 0, skipped = 0;
  std::vector<std::int32_t> tokens;
  std::vector<float> hidden, recent;
  if (!get_value(source, seen) || !get_value(source, first_recent) || !get_value(source, skipped) ||
      !get_list(source, tokens) || !get_list(source, hidden) || !get_list(source, recent)) {
    return unfit;
  }
  if (skipped < 0 || skipped > length) return unfit;
  FT_ASSIGN(Timeline timeline, Timeline::read_from(pool_, source, {kind_of(number(), skipped), skipped + 1}));
  const auto width = static_cast<std::size_t>(options_.hidden);
  // The missing pairs were skipped; they are before any row from which a sequence may begin.
  const auto missing = seen - 1 - timeline.length() - static_cast<std::int64_t>(tokens.size());
  if (seen != length || skipped != missing || first_recent < skipped || first_recent >= seen ||
      seen - first_recent > kRecentRows || tokens.size() > kPendingRows ||
      hidden.size() != tokens.size() * width || recent.size() != kRecentRows * width) {
    return unfit;
  }
  FT_ASSIGN(std::unique_ptr<Memory> memory,
            new_memory(std::move(timeline), seen, skipped, first_recent, std::move(tokens)));
  const std::int64_t first = seen - 1 - static_cast<std::int64_t>(memory->tokens.size());
  memory_rows_->write(memory->place(first), hidden);
  for (std::int64_t token = first_recent; token < seen; ++token) {
    const auto at = static_cast<std::size_t>(token % kRecentRows) * width;
    memory_rows_->write(memory->place(token), std::span<const float>(recent).subspan(at, width));
  }
  return std::unique_ptr<DraftMemory>(std::move(memory));
}

}  // namespace ft
