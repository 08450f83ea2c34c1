// Snapshots as bytes: the target's timeline, the number + 1 of the drafter that remembers or 0, its memory.
#include "speculation/snapshot.h"

#include <fmt/format.h>

#include "speculation/decoder.h"

namespace ft {

bool Snapshot::write_to(ByteSink& sink) const {
  const auto drafter = static_cast<std::uint8_t>(draft ? draft->drafter() + 1 : 0);
  return timeline.write_to(sink) && put_value(sink, drafter) && (!draft || draft->write_to(sink));
}

Result<Snapshot> Decoder::read_snapshot(ByteSource& source) {
  FT_ASSIGN(Timeline timeline, Timeline::read_from(*pool_, source));
  Snapshot snapshot{std::move(timeline), nullptr};
  std::uint8_t drafter = 0;
  if (!get_value(source, drafter) || drafter > drafters_.size() + (choice_ ? 1U : 0U) ||
      snapshot.high() < 1) {
    return Error{Code::kCorrupt, "its bytes are not a snapshot"};
  }
  if (drafter > 0) {
    Drafter* const owner = drafter <= drafters_.size() ? drafters_[drafter - 1U].get() : choice_.get();
    FT_ASSIGN(snapshot.draft, owner->read_memory(source, snapshot.high()));
  }
  if (source.left() > 0 || snapshot.low() > snapshot.high()) {
    return Error{Code::kCorrupt, "its bytes are not a snapshot"};
  }
  return snapshot;
}

std::string Decoder::state_identity() const {
  std::string text = fmt::format("{}\n{} {}\n{}", backend_.arithmetic(), state_->block_bytes(),
                                 state_->slot_bytes(), to_text(model_.target));
  for (const auto& drafter : drafters_) {
    if (const std::string identity = drafter->memory_identity(); !identity.empty()) text += "\n" + identity;
  }
  return text;
}

}  // namespace ft
