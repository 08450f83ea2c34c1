// Prompts: chunks of rows that go into the timeline, and their captured rows, positions and images.
#include <algorithm>

#include "drafters/guarded.h"
#include "speculation/round.h"

namespace ft {

Status Round::prefill(Slot& slot, int rows) {
  const std::int64_t done = slot.timeline->length();
  const int left = static_cast<int>(static_cast<std::int64_t>(slot.tokens.size()) - 1 - done);
  rows = std::min(rows, left);
  if (slot.on_prompt_row) rows = std::min(rows, static_cast<int>(entries_.size()) * (max_depth_ + 1));
  if (rows <= 0) return {};
  // A prompt's last rows stay on the tape, so that a snapshot can begin at any of them
  // (speculation/snapshot.h).
  if (rows > kMaxTapeRows + 1 && left > rows && left - rows <= kMaxTapeRows) rows = left - kMaxTapeRows - 1;
  const int confirmed = rows == left ? std::max(1, rows - kMaxTapeRows) : rows;
  FT_ASSIGN(Txn txn, slot.timeline->begin(rows, confirmed));
  const Segment segment = txn.segment();
  const auto chunk = std::span<const std::int32_t>(slot.tokens)
                         .subspan(static_cast<std::size_t>(done), static_cast<std::size_t>(rows));
  logit_rows_.clear(), captures_.clear(), coordinates_.clear(), embeddings_.clear();
  capture_rows(slot, rows);
  if (!slot.positions.flat()) place_rows(slot, rows);
  for (int i = 0; !slot.positions.flat() && i < rows; ++i)
    embeddings_.push_back(images_->place(slot.id, slot.positions, done + i));
  for (int i = 0; slot.on_prompt_row && i < rows; ++i) logit_rows_.push_back(i);
  StepResult result;
  try {
    StepArgs args{chunk, {}, {&segment, 1}, logit_rows_, {}, {}};
    args.capture = capture_places();
    args.logits = !logit_rows_.empty();
    args.coordinates = coordinates_;
    if (!embeddings_.empty()) args.embeddings = {&images_->store(), embeddings_};
    target_.submit(args, state_);
    if (args.logits) result = target_.collect();
  } catch (...) {
    txn.rollback();
    throw;
  }
  txn.commit(rows);
  const auto vocabulary = static_cast<std::size_t>(target_.vocabulary());
  for (std::size_t i = 0; i < logit_rows_.size(); ++i) {
    slot.on_prompt_row(done + static_cast<std::int64_t>(i),
                       result.logits.subspan(i * vocabulary, vocabulary));
  }
  observe(slot, chunk, true);
  return {};
}

/// Shows committed rows to the slot's drafter; after a failure, the answer continues without it.
void Round::observe(Slot& slot, std::span<const std::int32_t> tokens, bool prompt) {
  if (slot.drafter == nullptr) return;
  const Status seen = guarded([&] { return slot.drafter->observe(slot.id, tokens, prompt); });
  if (!seen.ok()) drop_drafter(slot, *slot.drafter);
}

/// A drafter that failed for this slot is not asked again; the slot's other drafters are kept.
void Round::drop_drafter(Slot& slot, Drafter& failed) {
  slot.drafter_failed = true;
  if (&failed != slot.drafter && slot.drafter->drop_member(slot.id, failed)) return;
  slot.drafter->close(slot.id);
  slot.drafter = nullptr;
}

/// Marks the next `rows` rows of the step as the slot's, from its timeline's end on, for its drafter.
void Round::capture_rows(const Slot& slot, int rows) {
  if (ring_ == nullptr) return;
  const bool read = slot.drafter != nullptr && slot.drafter->reads_rows();
  for (int i = 0; i < rows; ++i) {
    captures_.push_back(read ? ring_->place(slot.id, slot.timeline->length() + i) : -1);
  }
}

CapturePlaces Round::capture_places() const {
  CapturePlaces to;
  for (std::size_t i = 0; i < captured_.size(); ++i) {
    if (captured_[i] != nullptr) to.stores[i] = &captured_[i]->store();
  }
  if (ring_ != nullptr) to.places = captures_;
  return to;
}

/// The positions of those rows on the axes of M-RoPE.
void Round::place_rows(const Slot& slot, int rows) {
  for (int i = 0; i < rows; ++i) coordinates_.push_back(slot.positions.at(slot.timeline->length() + i));
}

}  // namespace ft
