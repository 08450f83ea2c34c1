// Drafts with an assistant of Gemma 4: a chain of passes, each over a draft and the row that the pass before
// fed back. Its queries read the target's own keys and values of the committed rows. It has no keys and
// values and writes nothing into the target's state, so it reads no prompt and has no backlog. Its state is
// the hidden row of the last committed token, which is in the ring of captured rows; a sequence restored from
// a snapshot has none and drafts from its second round on. All passes have one position: queries turn by
// coordinate 0, the pending token's, or by coordinate 1, the position of the row before it. Cost: a pass for
// each draft, for the whole batch. Source: transformers' Gemma4AssistantForCausalLM.
#pragma once

#include <memory>
#include <vector>

#include "drafters/captured_rows.h"
#include "drafters/drafter.h"
#include "sampling/sample.h"

namespace ft {

class AssistantDrafter final : public Drafter {
 public:
  struct Options {
    int slots = 1;
    int hidden = 0;  // width of the target's hidden rows, and of those that a pass feeds back
    int max_depth = kMaxDraftTokens;
  };
  static CaptureRequest request(int hidden) { return {"hidden", hidden, 1}; }
  /// `captured`: of request(). It and `target`, the state of the target's timelines, must outlive the
  /// drafter.
  static Result<std::unique_ptr<AssistantDrafter>> make(Backend& backend, const Program& program,
                                                        State& target, CapturedRows& captured,
                                                        const Options& options);

  std::string_view name() const override { return "assistant"; }
  Status open(int slot, std::int64_t position) override;
  void close(int slot) override;
  bool reads_rows() const override { return true; }
  Status observe(int slot, std::span<const std::int32_t> tokens, bool prompt) override;
  int plan(const DraftSlot& slot) override;
  int draft_cost(int depth) const override { return depth; }
  Status propose(std::span<DraftSlot*> slots, std::span<std::int32_t> round_tokens) override;
  void collect() override { network_->collect(); }
  std::int64_t packed_bytes() const override { return network_->packed_bytes(); }

 private:
  struct SlotState {
    std::int64_t first = 0, seen = 0;  // position of the first row that was observed; committed rows
  };
  AssistantDrafter(const Options& options, State& target, CapturedRows& captured,
                   std::unique_ptr<Executable> network, std::unique_ptr<RowStore> chain);

  void pass(std::span<DraftSlot*> slots, int step, std::span<std::int32_t> round_tokens);
  std::int32_t chain_place(int slot, int step) const { return (step % 2) * options_.slots + slot; }

  Options options_;
  State& target_;
  CapturedRows& captured_;
  std::unique_ptr<Executable> network_;
  std::unique_ptr<RowStore> chain_;  // [2, slots] the rows that the passes feed back, by turns
  std::vector<SlotState> slots_;
  SampleScratch scratch_;
  bool collected_ = true;  // the last pass was
  // One step's arguments, reused.
  std::vector<std::int32_t> tokens_, logit_rows_, rows_, fed_back_;
  std::vector<Coordinates> coordinates_;
  std::vector<Segment> segments_;
  std::vector<SampleRow> samples_;
};

}  // namespace ft
