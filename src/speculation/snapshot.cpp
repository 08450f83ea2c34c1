// The room for snapshots, and snapshots as bytes: the target's timeline, the number + 1 of the drafter that
// has a memory, or 0, and that memory.
#include "speculation/snapshot.h"

#include <algorithm>
#include <fmt/format.h>

#include "speculation/assembly.h"
#include "speculation/round.h"

namespace ft {
namespace {

constexpr Timeline::Rows kTargetRows{"target"};

/// In the machine's memory: the number of snapshots that fit into the bytes, each with one private block, and
/// as many blocks. Memory is taken at the first use, and the cache keeps within the bytes.
void count_room(const DecoderOptions& options, int blocks_each, SnapshotRoom& room) {
  const std::int64_t block = std::max<std::int64_t>(1, room.block_bytes + room.draft_block_bytes);
  room.snapshots = static_cast<int>(std::min<std::int64_t>(
      options.snapshots, options.cache_bytes / (room.snapshot_bytes + block + room.window_bytes)));
  const std::int64_t useful = std::int64_t{room.snapshots} * blocks_each;
  room.blocks = static_cast<int>(std::min(useful, options.cache_bytes / block));
}

/// On a device, where all memory is allocated: snapshots and blocks that together take no more than the
/// bytes. Snapshots get the room beyond two prompts of the whole context, at most half of all.
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
  return timeline.write_to(sink, kTargetRows) && put_value(sink, drafter) &&
         (!draft || draft->write_to(sink));
}

Result<Snapshot> Snapshots::take(const Slot& slot) const {
  FT_ASSERT(!slot.timeline->lost() && slot.timeline->length() > 0);
  FT_ASSIGN(Timeline timeline, slot.timeline->fork());
  Snapshot snapshot{std::move(timeline), nullptr};
  if (slot.drafter != nullptr && slot.drafter->remembers()) {
    FT_ASSIGN(snapshot.draft, slot.drafter->save(slot.id));
  }
  return snapshot;
}

Result<Snapshot> Snapshots::read(ByteSource& source) const {
  FT_ASSIGN(Timeline timeline, Timeline::read_from(assembly_.pool(), source, kTargetRows));
  Snapshot snapshot{std::move(timeline), nullptr};
  std::uint8_t drafter = 0;
  if (!get_value(source, drafter) || snapshot.high() < 1) {
    return Error{Code::kCorrupt, "its bytes are not a snapshot"};
  }
  if (drafter > 0) {
    Drafter* const owner = assembly_.drafter_number(drafter - 1);
    if (owner == nullptr) return Error{Code::kCorrupt, "its bytes are not a snapshot"};
    FT_ASSIGN(snapshot.draft, owner->read_memory(source, snapshot.high()));
  }
  if (source.left() > 0 || snapshot.low() > snapshot.high()) {
    return Error{Code::kCorrupt, "its bytes are not a snapshot"};
  }
  return snapshot;
}

SnapshotRoom plan_snapshots(const Backend& backend, const Model& model, const DecoderOptions& options,
                            int blocks_each) {
  SnapshotRoom room;
  if (options.cache_bytes <= 0) return room;
  const Limits target = backend.limits(model.target.layout());
  room.snapshot_bytes = target.slot_bytes;
  room.window_bytes = target.sliding_window_part.block_bytes;
  room.block_bytes = target.block_bytes - room.window_bytes;
  room.window_blocks = TimelinePool::window_blocks(target.sliding_window_part, 0);
  bool networks = false;
  for (const DrafterSpec* spec : drafters_of(model)) {
    room.snapshot_bytes += spec->memory_bytes(model);
    const Program* network = spec->network(model);
    if (network == nullptr) continue;
    const Limits limits = backend.limits(network->layout());
    room.draft_block_bytes += limits.block_bytes;
    room.snapshot_bytes += limits.slot_bytes;
    networks = true;
  }
  target.memory_bytes == 0 ? count_room(options, blocks_each, room) : divide_room(options, blocks_each, room);
  room.draft_blocks = networks ? room.blocks + room.snapshots : 0;
  return room;
}

const SnapshotRoom& Snapshots::room() const { return assembly_.room(); }

std::int64_t Snapshots::max_bytes() const { return assembly_.options().cache_bytes; }

std::string Snapshots::state_identity() const {
  std::string text =
      fmt::format("{}\n{} {}\n{}", assembly_.backend().arithmetic(), assembly_.state().block_bytes(),
                  assembly_.state().slot_bytes(), to_text(assembly_.model().target));
  for (const auto& drafter : assembly_.drafters()) {
    if (const std::string identity = drafter->memory_identity(); !identity.empty()) text += "\n" + identity;
  }
  return text;
}

}  // namespace ft
