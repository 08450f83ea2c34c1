// Prompts: chunks of rows that go into the timeline, and their captured rows, positions and images.
#include <algorithm>
#include <utility>
#include <vector>

#include "drafters/guarded.h"
#include "speculation/round.h"

namespace ft {

Status Round::prefill(Slot& slot, int rows) {
  const int left = prompt_left(slot);
  rows = std::min(rows, left);
  if (slot.on_prompt_row) rows = std::min(rows, static_cast<int>(entries_.size()) * (max_depth_ + 1));
  if (rows <= 0) return {};
  // A prompt's last rows stay on the tape, so that a snapshot can begin at any of them
  // (speculation/snapshot.h).
  if (rows > kMaxTapeRows + 1 && left > rows && left - rows <= kMaxTapeRows) rows = left - kMaxTapeRows - 1;
  const PromptPart part{&slot, rows, rows == left};
  return read_prompts({&part, 1});
}

Status Round::prefill_together(std::span<Slot* const> slots) {
  std::vector<PromptPart> parts;
  for (Slot* slot : slots) {
    if (const int left = prompt_left(*slot); left > 0) parts.push_back({slot, left, true});
  }
  return parts.empty() ? Status() : read_prompts(parts);
}

int Round::prompt_left(const Slot& slot) {
  return static_cast<int>(static_cast<std::int64_t>(slot.tokens.size()) - 1 - slot.timeline->length());
}

/// One step.
Status Round::read_prompts(std::span<const PromptPart> parts) {
  tokens_.clear(), logit_rows_.clear(), captures_.clear(), coordinates_.clear(), embeddings_.clear();
  std::vector<Txn> open;
  const auto give_up = [&] {
    for (Txn& txn : open) txn.rollback();
  };
  for (const PromptPart& part : parts) {
    Result<Txn> txn =
        part.slot->timeline->begin(part.rows, part.last ? std::max(1, part.rows - kMaxTapeRows) : part.rows);
    if (!txn.ok()) {
      give_up();
      return txn.error();
    }
    open.push_back(std::move(*txn));
  }
  std::vector<Segment> segments;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    segments.push_back(open[i].segment());
    add_prompt_rows(parts[i]);
  }
  StepResult result;
  try {
    StepArgs args{tokens_, {}, segments, logit_rows_, {}, {}};
    args.capture = capture_places();
    args.logits = !logit_rows_.empty();
    args.coordinates = coordinates_;
    if (!embeddings_.empty()) args.embeddings = {&images_->store(), embeddings_};
    target_.submit(args, state_);
    if (args.logits) result = target_.collect();
  } catch (...) {
    give_up();
    throw;
  }
  for (std::size_t i = 0; i < parts.size(); ++i) open[i].commit(parts[i].rows);
  show_prompt_rows(parts, result);
  return {};
}

/// The next rows of a prompt in the arguments of a step.
void Round::add_prompt_rows(const PromptPart& part) {
  const Slot& slot = *part.slot;
  const std::int64_t done = slot.timeline->length();
  const auto first = static_cast<std::int32_t>(tokens_.size());
  const auto chunk = std::span(slot.tokens).subspan(static_cast<std::size_t>(done));
  tokens_.insert(tokens_.end(), chunk.begin(), chunk.begin() + part.rows);
  capture_rows(slot, part.rows);
  if (!slot.positions.flat()) place_rows(slot, part.rows);
  for (int i = 0; !slot.positions.flat() && i < part.rows; ++i)
    embeddings_.push_back(images_->place(slot.id, slot.positions, done + i));
  for (int i = 0; slot.on_prompt_row && i < part.rows; ++i) logit_rows_.push_back(first + i);
}

/// To those who read a prompt's rows: on_prompt_row, and the drafter.
void Round::show_prompt_rows(std::span<const PromptPart> parts, const StepResult& result) {
  const auto vocabulary = static_cast<std::size_t>(target_.vocabulary());
  std::size_t logits = 0;
  for (const PromptPart& part : parts) {
    Slot& slot = *part.slot;
    const std::int64_t done = slot.timeline->length() - part.rows;
    for (int i = 0; slot.on_prompt_row && i < part.rows; ++i)
      slot.on_prompt_row(done + i, result.logits.subspan(logits++ * vocabulary, vocabulary));
    const auto all = std::span<const std::int32_t>(slot.tokens);
    observe(slot, all.subspan(static_cast<std::size_t>(done), static_cast<std::size_t>(part.rows)), true);
  }
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
