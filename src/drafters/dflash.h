// Drafts with a block drafter (DFlash, DFlash2, DSpark): one pass fills a block of mask tokens after the
// pending token. Its keys and values of the past come from hidden rows of the target (models/dflash/build.cpp
// has the two programs), so the past of a slot is a timeline with one row for each committed token. Rows of a
// block are never kept.
// Cost: one pass for the whole batch, whatever the depth, and a cheap one that takes in the rows committed
// since the last proposal; kPendingRows of them wait at most. A whole block is drafted at once, on the noise
// of the target at each position. In DFlash no draft depends on the ones before it; DFlash2 and DSpark walk
// over candidates in that pass. Where penalties, a constraint or rejection sampling make a draft depend on
// those before it, the host draws them one by one. Source: z-lab/dflash.
#pragma once

#include <optional>
#include <vector>

#include "drafters/captured_rows.h"
#include "drafters/drafter.h"
#include "models/model.h"
#include "sampling/sample.h"
#include "timeline/timeline.h"

namespace ft {

class DflashDrafter final : public Drafter {
 public:
  static constexpr int kPendingRows = 64;  // that may wait for a pass

  struct Options {
    int slots = 1;
    int blocks = 1;                   // key/value blocks of its cache
    int memories = 0;                 // sequences saved at once, without the slots
    int max_depth = kMaxDraftTokens;  // drafts of a slot in a round
    std::int64_t context = 0;         // tokens of a slot that memory is reserved for
  };
  static CaptureRequest request(const DraftNetwork& network) {
    return {network.captures.name, network.captured_width, kPendingRows};
  }
  /// `captured`: of request(). It and the network must outlive the drafter.
  static Result<std::unique_ptr<DflashDrafter>> make(Backend& backend, const DraftNetwork& network,
                                                     CapturedRows& captured, const Options& options);

  std::string_view name() const override { return "dflash"; }
  Status open(int slot, std::int64_t position) override;
  void close(int slot) override;
  bool reads_rows() const override { return true; }
  Status observe(int slot, std::span<const std::int32_t> tokens, bool prompt) override;
  int plan(const DraftSlot& slot) override;
  int draft_cost(int depth) const override { return depth > 0 ? 1 : 0; }
  Status propose(std::span<DraftSlot*> slots, std::span<std::int32_t> round_tokens) override;
  void collect() override { block_->collect(); }

  bool remembers() const override { return true; }
  bool restores(const DraftMemory& memory) const override { return memory.part(number()) != nullptr; }
  Result<std::unique_ptr<DraftMemory>> save(int slot) override;
  Status restore(int slot, const DraftMemory& memory, std::int64_t length) override;
  Result<std::unique_ptr<DraftMemory>> read_memory(ByteSource& source, std::int64_t length) override;
  std::string memory_identity() const override { return identity_; }

  std::int64_t packed_bytes() const override { return context_->packed_bytes() + block_->packed_bytes(); }
  const TimelinePool* pool() const override { return &pool_; }

 private:
  struct SlotState {
    std::optional<Timeline> timeline;  // a row for each committed token, from `first` on
    std::int64_t first = 0;            // position of the first row that was observed
    std::int64_t seen = 0;             // committed tokens

    std::int64_t pending() const { return seen - first - timeline->length(); }
  };
  struct Memory;
  DflashDrafter(const DraftNetwork& network, const Options& options, CapturedRows& captured,
                std::unique_ptr<Executable> context, std::unique_ptr<Executable> block,
                std::unique_ptr<State> state);

  Status take_in(std::span<const int> slots);
  Status draft(std::span<DraftSlot*> slots, std::span<std::int32_t> round_tokens);
  void finish(std::span<DraftSlot*> slots, bool good);
  void draw(std::span<DraftSlot*> slots, const StepResult& result);
  /// The distribution of a draft: logits and the tokens of their columns (empty: all).
  struct Choices {
    std::span<const float> logits;
    std::span<const std::int32_t> ids;
  };
  /// choices(i, row, before): of draft i after the token `before`.
  template <class ChoicesOf>
  void draw_one_by_one(DraftSlot& slot, const ChoicesOf& choices);
  SampleRow sample_row(const DraftSlot& slot, int draft);
  std::span<const LogitBias> without_mask(const DraftSlot& slot);

  const DraftNetwork& network_;
  Options options_;
  std::string identity_;  // of memories
  CapturedRows& captured_;
  std::unique_ptr<Executable> context_, block_;
  std::unique_ptr<State> state_;
  TimelinePool pool_;
  std::vector<SlotState> slots_;
  SampleScratch scratch_;
  std::vector<std::optional<Txn>> txns_;        // open during a step
  std::vector<std::vector<LogitBias>> biases_;  // [slots] the request's, and the mask token's
  bool collected_ = true;                       // the last block was
  bool walks_ = false;                          // over candidates
  WalkCandidates candidates_;
  // One step's arguments, reused.
  std::vector<int> ids_;
  std::vector<std::int32_t> tokens_, logit_rows_, rows_;
  std::vector<Segment> segments_;
  std::vector<SampleRow> samples_;
};

}  // namespace ft
