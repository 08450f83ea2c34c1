// Drafts with the model's own multi-token-prediction (MTP) head: a one-layer network over pairs (hidden row
// of a token, next token). It has its own key/value history of true pairs; for further drafts it reads its
// own output. Specification: Qwen3.5 MTP (DeepSeek-V3 section 2.2); the target's hidden row is the one after
// the final norm. The program has an Input (the hidden row), a Capture (the row to feed back) and
// a Sample.
// Cost: one pass of the MTP head per depth for the whole batch; the first pass takes the pairs that were
// committed since the last proposal. Pairs wait until a proposal needs them, so an answer without drafts does
// not pay for an unused history. After a long stretch without drafts the MTP head sees only the last
// kPendingRows pairs, and then drafts as it would after a shorter text. A prompt is seen whole.
// With a reduced vocabulary, tokens of the current text are added to the LM head (ExtraIds).
// Its drafts depend on the other slots of the round; answers do not.
// For a prompt with images it reads the same image rows as its target, and the positions of the tokens that
// the hidden rows belong to.
// EAGLE-3's network drafts in the same way, from other rows: a second program makes the hidden row of a true
// pair of the rows that the target captured (models/eagle3/build.cpp).
// Memory: one key/value layer per sequence. Hidden rows stay in the ring of captured rows; a memory of a
// sequence holds up to kMemoryRows of them.
#pragma once

#include <optional>
#include <vector>

#include "drafters/captured_rows.h"
#include "drafters/drafter.h"
#include "drafters/image_rows.h"
#include "program/backend.h"
#include "sampling/sample.h"
#include "timeline/timeline.h"

namespace ft {

class MtpDrafter final : public Drafter {
 public:
  static constexpr int kPassRows = 64;      // of one sequence in a pass, at most
  static constexpr int kPendingRows = 128;  // pairs that may wait for a pass
  /// Maximum tokens, from the end of a text, that get columns in a reduced MTP head at once.
  static constexpr std::size_t kMaxNamed = 1 << 14;
  /// Hidden rows kept of the last committed tokens: a sequence may begin at any of them.
  static constexpr int kRecentRows = kMaxTapeRows + 1;

  /// Maximum hidden rows of a memory: one for each pending pair, and the boundary.
  static constexpr int kMemoryRows = kPendingRows + 1;

  struct Options {
    int slots = 1;
    int blocks = 1;                     // key/value blocks of the MTP head's own cache
    int hidden = 0;                     // width of a captured row
    std::string_view name = "mtp";      // of the drafter
    const Program* features = nullptr;  // makes a hidden row of a captured one; null: they are the same
    int fed_back = 0;                   // width of a row that the network feeds back; 0: `hidden`
    int memories = 0;                   // sequences saved at once, without the slots
    int max_depth = kMaxDraftTokens;    // drafts of a slot in a round
    std::int64_t context = 0;           // tokens of a slot that memory is reserved for
    const ImageRows* images = nullptr;  // null: prompts are text
  };
  /// The rows that it reads of a target whose hidden rows have this width.
  static CaptureRequest request(int hidden) { return {"hidden", hidden, kMemoryRows + kRecentRows}; }
  /// `captured`: of request(); must outlive the drafter.
  static Result<std::unique_ptr<MtpDrafter>> make(Backend& backend, const Program& program,
                                                  CapturedRows& captured, const Options& options);

  std::string_view name() const override { return options_.name; }
  Status open(int slot, std::int64_t position) override;
  void close(int slot) override;
  void set_positions(int slot, const PositionMap& positions) override {
    if (!positions.flat()) slots_[static_cast<std::size_t>(slot)].positions = &positions;
  }
  bool reads_rows() const override { return true; }
  Status observe(int slot, std::span<const std::int32_t> tokens, bool prompt) override;
  bool remembers() const override { return true; }
  Result<std::unique_ptr<DraftMemory>> save(int slot) override;
  Status restore(int slot, const DraftMemory& memory, std::int64_t length) override;
  bool restores(const DraftMemory& memory) const override { return memory.part(number()) != nullptr; }
  Result<std::unique_ptr<DraftMemory>> read_memory(ByteSource& source, std::int64_t length) override;
  std::string memory_identity() const override { return identity_; }
  int plan(const DraftSlot& slot) override;
  int draft_cost(int depth) const override { return depth; }
  Status propose(std::span<DraftSlot*> slots, std::span<std::int32_t> round_tokens) override;
  void collect() override { head_->collect(); }

  std::int64_t packed_bytes() const override {
    return head_->packed_bytes() + (features_ ? features_->packed_bytes() : 0);
  }
  const TimelinePool* pool() const override { return &pool_; }
  /// Maximum bytes of one memory, without its blocks.
  static std::int64_t memory_bytes(int hidden);

 private:
  struct SlotState {
    std::optional<Timeline> timeline;        // of pairs, in order
    std::vector<std::int32_t> tokens;        // of the pending pairs; their hidden rows are captured rows
    std::int64_t first = 0;                  // position of the first row that was observed
    std::int64_t seen = 0;                   // committed tokens; the last one's row is the boundary
    std::int64_t skipped = 0;                // pairs that no pass will see
    std::size_t from_prompt = 0;             // the first pending pairs, which are not skipped
    std::int64_t first_recent = 0;           // the first token from whose row a sequence may begin
    bool boundary_paired = false;            // the pair (boundary, pending token) is in the timeline or waits
    std::size_t named = 0;                   // tokens of the sequence that were added as extra ids
    const PositionMap* positions = nullptr;  // null: text, whose pairs have their places in the timeline

    /// Position of the hidden row of the first pending pair.
    std::int64_t first_row() const { return timeline->length() + skipped; }
  };
  struct Memory;
  MtpDrafter(Options options, CapturedRows& captured, std::unique_ptr<Executable> head,
             std::unique_ptr<State> state, std::unique_ptr<RowStore> chain, std::unique_ptr<RowStore> kept,
             std::string identity);

  Status build_features(Backend& backend, const CompileOptions& compile);
  Status flush(int slot, std::size_t most_left);
  void add_pair(int slot, std::int64_t place, bool with_images);
  bool any_images(std::span<DraftSlot* const> slots) const;
  void place_rows(StepArgs& args) const;
  RowPlaces hidden_rows(std::span<const std::int32_t> tokens, std::span<const Segment> segments);
  static void forget_oldest(SlotState& slot, std::size_t pairs);
  Status first_pass(std::span<DraftSlot*> slots, std::span<std::int32_t> round_tokens);
  Status next_pass(std::span<DraftSlot*> slots, int step, std::span<std::int32_t> round_tokens);
  void submit(std::span<DraftSlot*> slots, int step, const RowPlaces& hidden,
              std::span<std::int32_t> round_tokens);
  void finish(std::span<DraftSlot*> slots, bool good);
  void name_tokens(const DraftSlot& slot);
  std::int32_t chain_place(int slot, int step) const { return (step % 2) * options_.slots + slot; }
  Result<std::unique_ptr<Memory>> new_memory(Timeline timeline, std::int64_t seen, std::int64_t skipped,
                                             std::int64_t first_recent, std::vector<std::int32_t> tokens);

  Options options_;
  std::string identity_;  // of memories
  CapturedRows& captured_;
  std::unique_ptr<Executable> head_;
  std::unique_ptr<Executable> features_;    // null: captured rows are read as they are
  std::unique_ptr<RowStore> feature_rows_;  // [rows of a step] of the next step alone
  std::unique_ptr<State> state_;
  TimelinePool pool_;
  std::unique_ptr<RowStore> chain_;        // [2, slots] the rows that the passes feed back, by turns
  std::unique_ptr<RowStore> memory_rows_;  // [areas, kMemoryRows] of all memories
  std::vector<std::int32_t> free_areas_;
  std::vector<SlotState> slots_;
  SampleScratch scratch_;
  std::vector<std::optional<Txn>> txns_;  // [slots], open during propose
  std::vector<int> first_rows_;           // [slots]: rows of the first pass
  bool collected_ = true;                 // the last pass was
  // One step's arguments, reused.
  std::vector<std::int32_t> tokens_, logit_rows_, rows_, fed_back_, embeddings_;
  std::vector<Coordinates> coordinates_;  // with images only, as embeddings_
  std::vector<std::int32_t> in_order_;    // [rows of a step] 0, 1, 2, ...
  std::vector<Segment> segments_;
  std::vector<SampleRow> samples_;
};

}  // namespace ft
