#include "tune/streams.h"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

namespace ft::tune {
namespace {

/// One prompt on its way through its stages.
struct Stream {
  std::int64_t index = 0;
  int stage = 0;
  std::unique_ptr<Slot> slot;
};

class Writing {
 public:
  Writing(Decoder& decoder, const StreamOptions& options, const NextAsk& next, const TakeAnswer& take)
      : decoder_(decoder), options_(options), next_(next), take_(take) {}
  ~Writing() {
    for (std::vector<Stream>* streams : {&begun_, &running_})
      for (Stream& stream : *streams) decoder_.close(*stream.slot);
  }
  Writing(const Writing&) = delete;
  Writing& operator=(const Writing&) = delete;

  bool has_room() const {
    return begun_.size() + running_.size() < static_cast<std::size_t>(options_.streams);
  }
  bool idle() const { return begun_.empty() && running_.empty(); }

  Status begin(std::int64_t index) { return ask(Stream{index, 0, nullptr}, Answered()); }

  /// The prompts that have begun, one round of all streams, and the next stage of those that ended.
  Status run() {
    FT_TRY(read_prompts());
    std::vector<Slot*> slots;
    for (const Stream& stream : running_) slots.push_back(stream.slot.get());
    decoder_.round(slots);
    std::vector<Stream> ended;
    for (std::size_t i = running_.size(); i-- > 0;) {
      if (running_[i].slot->finish == Finish::kNone) continue;
      ended.push_back(std::move(running_[i]));
      running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    Status status;
    for (Stream& stream : ended) {
      Answered answered{std::move(stream.slot->tokens), stream.slot->prompt_tokens};
      if (status.ok() && stream.slot->finish == Finish::kError) status = stream.slot->error;
      decoder_.close(*stream.slot);
      stream.slot.reset();
      ++stream.stage;
      if (status.ok()) status = ask(std::move(stream), std::move(answered));
    }
    return status;
  }

 private:
  Status ask(Stream stream, Answered last) {
    FT_ASSIGN(std::optional<Ask> wanted, next_(stream.index, stream.stage, last));
    if (!wanted)
      return take_(stream.index, stream.stage == 0 ? std::nullopt : std::optional(std::move(last)));
    SlotOptions slot;
    slot.sampler = wanted->sampler, slot.max_tokens = wanted->max_tokens;
    slot.context = decoder_.options().context, slot.eos = options_.eos;
    const DrafterKind drafter = options_.drafts ? DrafterKind::kAuto : DrafterKind::kNone;
    FT_ASSIGN(stream.slot, decoder_.open(wanted->prompt, std::move(slot), drafter));
    begun_.push_back(std::move(stream));
    return {};
  }

  /// Short prompts share a step: one alone uses little of a GPU.
  Status read_prompts() {
    const auto most = static_cast<std::size_t>(decoder_.options().prefill_chunk);
    std::vector<Slot*> group;
    std::size_t rows = 0;
    const auto read_group = [&] {
      rows = 0;
      return decoder_.prefill_together(std::exchange(group, {}));
    };
    for (const Stream& stream : begun_) {
      Slot& slot = *stream.slot;
      const std::size_t size = slot.tokens.size();
      while (size > most && !slot.prefilled()) FT_TRY(decoder_.prefill(slot, static_cast<int>(most)));
      if (slot.prefilled()) continue;
      if (rows + size > most) FT_TRY(read_group());
      group.push_back(&slot);
      rows += size;
    }
    FT_TRY(read_group());
    for (Stream& stream : begun_) running_.push_back(std::move(stream));
    begun_.clear();
    return {};
  }

  Decoder& decoder_;
  const StreamOptions& options_;
  const NextAsk& next_;
  const TakeAnswer& take_;
  std::vector<Stream> begun_;  // whose prompt is still to be read
  std::vector<Stream> running_;
};

}  // namespace

Status write_answers(Decoder& decoder, const StreamOptions& options, std::span<const std::int64_t> indices,
                     const NextAsk& next, const TakeAnswer& take, const std::function<bool()>& stopped) {
  Writing writing(decoder, options, next, take);
  std::size_t begun = 0;
  while (begun < indices.size() || !writing.idle()) {
    if (stopped()) return Error{Code::kCancelled, "stopped"};
    if (writing.has_room() && begun < indices.size()) {
      FT_TRY(writing.begin(indices[begun++]));
    } else {
      FT_TRY(writing.run());
    }
  }
  return {};
}

std::size_t before_repetition(std::span<const std::int32_t> tokens, std::size_t first) {
  constexpr std::size_t kWindow = 64, kStep = 16, kDistinct = 14, kKept = 16;
  for (std::size_t end = first + kWindow; end <= tokens.size(); end += kStep) {
    const auto window = tokens.subspan(end - kWindow, kWindow);
    if (std::set<std::int32_t>(window.begin(), window.end()).size() < kDistinct)
      return std::min(end - kWindow + kKept, tokens.size());
  }
  return tokens.size();
}

}  // namespace ft::tune
