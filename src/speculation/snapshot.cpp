// The room for snapshots, and snapshots as bytes: the target's timeline, the number + 1 of the drafter that
// remembers or 0, its memory.
#include "speculation/snapshot.h"

#include <algorithm>
#include <fmt/format.h>

#include "speculation/decoder.h"

namespace ft {
namespace {

/// In the machine's memory: as many snapshots as the bytes pay for, each with a block of its own, and as many
/// blocks. Memory is taken at the first use, and the cache keeps within the bytes.
void count_room(const DecoderOptions& options, int blocks_each, SnapshotRoom& room) {
  const std::int64_t block = std::max<std::int64_t>(1, room.block_bytes + room.draft_block_bytes);
  room.snapshots = static_cast<int>(std::min<std::int64_t>(
      options.snapshots, options.cache_bytes / (room.snapshot_bytes + block + room.window_bytes)));
  const std::int64_t useful = std::int64_t{room.snapshots} * blocks_each;
  room.blocks = static_cast<int>(std::min(useful, options.cache_bytes / block));
}

/// On a device, where all of it is allocated: snapshots and blocks that take no more than the bytes together.
/// Snapshots get what two prompts of the whole context leave, at most half of all.
void divide_room(const DecoderOptions& options, int blocks_each, SnapshotRoom& room) {
  constexpr std::int64_t kFewSnapshots = 8;
  const std::int64_t bytes = options.cache_bytes;
  const std::int64_t block = std::max<std::int64_t>(1, room.block_bytes + room.draft_block_bytes);
  const std::int64_t one = room.snapshot_bytes + block + room.window_bytes * room.window_blocks;
  if (one > bytes / 2) return;
  const std::int64_t share = std::clamp(bytes - 2 * block * blocks_each,
                                        std::max(one, std::min(kFewSnapshots * one, bytes / 3)), bytes / 2);
  room.snapshots = static_cast<int>(std::min<std::int64_t>(options.snapshots, share / one));
  const std::int64_t useful = std::int64_t{room.snapshots} * blocks_each;
  room.blocks = static_cast<int>(std::min(useful, (bytes - room.snapshots * one) / block));
}

}  // namespace

bool Snapshot::write_to(ByteSink& sink) const {
  const auto drafter = static_cast<std::uint8_t>(draft ? draft->drafter() + 1 : 0);
  return timeline.write_to(sink) && put_value(sink, drafter) && (!draft || draft->write_to(sink));
}

Result<Snapshot> Decoder::read_snapshot(ByteSource& source) {
  FT_ASSIGN(Timeline timeline, Timeline::read_from(*pool_, source));
  Snapshot snapshot{std::move(timeline), nullptr};
  std::uint8_t drafter = 0;
  if (!get_value(source, drafter) || drafter > drafters_.size() + (drafter_set_ ? 1U : 0U) ||
      snapshot.high() < 1) {
    return Error{Code::kCorrupt, "its bytes are not a snapshot"};
  }
  if (drafter > 0) {
    Drafter* const owner = drafter <= drafters_.size() ? drafters_[drafter - 1U].get() : drafter_set_.get();
    FT_ASSIGN(snapshot.draft, owner->read_memory(source, snapshot.high()));
  }
  if (source.left() > 0 || snapshot.low() > snapshot.high()) {
    return Error{Code::kCorrupt, "its bytes are not a snapshot"};
  }
  return snapshot;
}

void Decoder::plan_room(int blocks_each) {
  if (options_.cache_bytes <= 0) return;
  const Limits target = backend_.limits(model_.target.layout());
  room_.snapshot_bytes = target.slot_bytes;
  room_.window_bytes = target.sliding_window_part.block_bytes;
  room_.block_bytes = target.block_bytes - room_.window_bytes;
  room_.window_blocks = TimelinePool::window_blocks(target.sliding_window_part, 0);
  bool networks = false;
  for (const DrafterSpec* spec : drafters_of(model_)) {
    room_.snapshot_bytes += spec->memory_bytes(model_);
    const Program* network = spec->network(model_);
    if (network == nullptr) continue;
    const Limits limits = backend_.limits(network->layout());
    room_.draft_block_bytes += limits.block_bytes;
    room_.snapshot_bytes += limits.slot_bytes;
    networks = true;
  }
  target.memory_bytes == 0 ? count_room(options_, blocks_each, room_)
                           : divide_room(options_, blocks_each, room_);
  room_.draft_blocks = networks ? room_.blocks + room_.snapshots : 0;
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
