// Drafts with a smaller model of the same tokenizer, which runs along with the target: a chain of its passes
// over its own timeline, for the whole batch at once. It reads tokens only. A prompt is read chunk by chunk
// along with the target, all but the last kKeptBack tokens; answered tokens are read when a proposal
// needs it. A chain runs on a fork of the timeline that is cleared afterwards, so that rejected drafts leave
// nothing in a recurrent state. Cost: a pass per depth; a fork copies one recurrent state and at most one
// block. After warm-up a proposal allocates nothing.
#pragma once

#include <optional>
#include <vector>

#include "drafters/drafter.h"
#include "models/model.h"
#include "sampling/sample.h"
#include "timeline/timeline.h"

namespace ft {

class ModelDrafter final : public Drafter {
 public:
  static constexpr int kKeptBack = kMaxTapeRows + 1;  // a sequence may begin at any of the last tokens
  static constexpr int kChunk = 256;                  // rows of a slot in one pass that takes in tokens

  struct Options {
    int slots = 1;
    int blocks = 1;                   // key/value blocks of its cache
    int memories = 0;                 // sequences saved at once, without the slots
    int max_depth = kMaxDraftTokens;  // drafts of a slot in a round
    std::int64_t context = 0;         // tokens of a slot that memory is reserved for
  };
  /// The network must outlive the drafter.
  static Result<std::unique_ptr<ModelDrafter>> make(Backend& backend, const DraftNetwork& network,
                                                    const Options& options);

  std::string_view name() const override { return "model"; }
  Status open(int slot, std::int64_t position) override;
  void close(int slot) override;
  Status observe(int slot, std::span<const std::int32_t> tokens, bool prompt) override;
  int plan(const DraftSlot& slot) override;
  int draft_cost(int depth) const override { return depth; }
  double catch_up(const DraftSlot& slot) const override;
  Status propose(std::span<DraftSlot*> slots, std::span<std::int32_t> round_tokens) override;
  void collect() override { network_->collect(); }

  bool remembers() const override { return true; }
  bool restores(const DraftMemory& memory) const override { return memory.part(number()) != nullptr; }
  Result<std::unique_ptr<DraftMemory>> save(int slot) override;
  Status restore(int slot, const DraftMemory& memory, std::int64_t length) override;
  Result<std::unique_ptr<DraftMemory>> read_memory(ByteSource& source, std::int64_t length) override;
  std::string memory_identity() const override { return identity_; }

  std::int64_t packed_bytes() const override { return network_->packed_bytes(); }
  const TimelinePool* pool() const override { return &pool_; }

 private:
  struct SlotState {
    std::optional<Timeline> timeline;   // of the sequence's first tokens
    std::optional<Timeline> chain;      // the fork of a proposal; empty between proposals
    std::vector<std::int32_t> pending;  // the tokens after those that observe() has received
    std::int64_t seen = 0;              // committed tokens
  };
  struct Memory;
  ModelDrafter(const DraftNetwork& network, const Options& options, std::unique_ptr<Executable> executable,
               std::unique_ptr<State> state);

  Status make_timelines(SlotState& slot);
  Status knows(std::span<const std::int32_t> tokens) const;
  Status take_in(SlotState& slot, std::span<const std::int32_t> tokens);
  Status first_pass(std::span<DraftSlot*> slots, std::span<std::int32_t> round_tokens);
  Status next_pass(std::span<DraftSlot*> slots, int step, std::span<std::int32_t> round_tokens);
  Status run_pass(std::span<DraftSlot*> slots, int step, std::span<std::int32_t> round_tokens);
  Status add(DraftSlot& slot, Timeline& timeline, std::span<const std::int32_t> tokens, int step);
  void end_pass(bool good);
  void finish(std::span<DraftSlot*> slots, bool good);

  const DraftNetwork& model_;
  Options options_;
  std::string identity_;  // of memories
  std::unique_ptr<Executable> network_;
  std::unique_ptr<State> state_;
  TimelinePool pool_;
  std::vector<SlotState> slots_;
  SampleScratch scratch_;
  bool collected_ = true;  // the last pass was
  // One step's arguments, reused.
  std::vector<Txn> txns_;
  std::vector<std::int32_t> tokens_, logit_rows_;
  std::vector<Segment> segments_;
  std::vector<SampleRow> samples_;
};

}  // namespace ft
