// Snapshots as bytes: the target's timeline, then whether a drafter's memory follows, and that.
#include "spec/snapshot.h"

#include <fmt/format.h>

#include "spec/decoder.h"

namespace ft {

bool Snapshot::write_to(ByteSink& sink) const {
  const std::uint8_t drafts = draft ? 1 : 0;
  return timeline.write_to(sink) && put_value(sink, drafts) && (!draft || draft->write_to(sink));
}

Result<Snapshot> Decoder::read_snapshot(ByteSource& source) {
  FT_ASSIGN(Timeline timeline, Timeline::read_from(*pool_, source));
  Snapshot snapshot{std::move(timeline), nullptr};
  std::uint8_t drafts = 0;
  if (!get_value(source, drafts) || drafts > 1 || (drafts == 1 && !mtp_) || snapshot.high() < 1) {
    return Error{Code::kCorrupt, "its bytes are no snapshot"};
  }
  if (drafts == 1) {
    FT_ASSIGN(snapshot.draft, mtp_->read_memory(source, snapshot.high()));
  }
  if (source.left() > 0 || snapshot.low() > snapshot.high()) {
    return Error{Code::kCorrupt, "its bytes are no snapshot"};
  }
  return snapshot;
}

std::string Decoder::state_identity() const {
  std::string text = fmt::format("{}\n{} {}\n{}", backend_.arithmetic(), state_->block_bytes(),
                                 state_->slot_bytes(), to_text(model_.trunk));
  if (mtp_) {
    const State& head = mtp_->state();
    text += fmt::format("\n{} {}\n{}", head.block_bytes(), head.slot_bytes(), to_text(*model_.mtp));
  }
  return text;
}

}  // namespace ft
