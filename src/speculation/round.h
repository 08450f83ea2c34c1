// The main path. A round takes 1..N slots, each with its own depth and sampler, through plan, propose,
// verify, accept and commit; round.cpp is one page. With the coupled rule a slot has the same tokens as with
// plain decoding, bit for bit, whatever the drafter, the depth and the neighbours. With rejection sampling
// they have the same distribution.
// Cost: one pass of the target over all rows, the draft steps, and O(vocabulary) per row for sampling. After
// warm-up a round and its drafters allocate nothing and take no lock (speculation/allocation_test.cpp),
// except on_token, which may do anything, and rejection sampling, which builds its distributions anew.
// Errors: a slot whose timeline cannot grow finishes with kExhausted, and the others continue. If a drafter
// fails or throws, its slots lose their drafts, nothing else. If the target's step throws, all slots of the
// round are lost and the exception continues to the caller.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "drafters/captured_rows.h"
#include "drafters/drafter.h"
#include "drafters/image_rows.h"
#include "program/backend.h"
#include "sampling/history.h"
#include "sampling/sample.h"
#include "speculation/batch_planner.h"
#include "speculation/depth.h"
#include "speculation/prompt_images.h"
#include "timeline/timeline.h"

namespace ft {

enum class Acceptance { kCoupled, kRejection };
enum class Finish { kNone, kStop, kLength, kContext, kCancelled, kError };

/// The rounds and drafts of one drafter for one request.
struct DrafterShare {
  std::string_view name;  // empty: it drafted nothing
  std::int64_t rounds = 0, drafted = 0, accepted = 0;

  void add(const DrafterShare& other) {
    if (name.empty()) name = other.name;
    rounds += other.rounds, drafted += other.drafted, accepted += other.accepted;
  }
};

/// The counts of speculation for one request; printed, counted and returned with the answer.
struct SpeculationReport {
  std::int64_t rounds = 0, drafted = 0, accepted = 0, emitted = 0;
  std::array<DrafterShare, kMaxDrafters> by_drafter{};                    // [Drafter::number()]
  std::array<std::int64_t, kMaxDraftTokens> drafted_at{}, accepted_at{};  // by position in the draft
};

/// The part of a request that the round reads. Valid by construction (sched/request.h).
struct SlotOptions {
  SamplingParams sampler;
  Acceptance acceptance = Acceptance::kCoupled;
  int depth = -1;                       // -1: auto
  int max_tokens = 0;                   // of output
  std::int64_t context = 0;             // prompt and output together
  std::vector<std::int32_t> eos;        // ends the answer after being emitted; empty: never
  std::vector<LogitBias> bias;          // ascending by token
  std::vector<std::uint32_t> mask;      // see SampleRow; Slot::constraint takes its place
  std::vector<std::int32_t> predicted;  // draft source given by the caller
  std::uint64_t owner = 0;              // DraftSlot::owner
  int logprobs = -1;                    // -1: none; else how many alternatives
};

struct Slot {
  int id = 0;  // 0..slots - 1, the drafter's number for it
  SlotOptions options;
  std::optional<Timeline> timeline;  // holds all tokens but the pending last one
  std::vector<PromptImage> images;   // of the prompt, in order
  PositionMap positions;             // of all tokens
  std::vector<std::int32_t> tokens;  // prompt and output
  int prompt_tokens = 0;
  History history;
  DepthPolicy policy;
  Drafter* drafter = nullptr;              // null: plain decoding
  bool drafter_failed = false;             // in some round, or for good
  std::unique_ptr<Constraint> constraint;  // null: any token may follow
  /// Called for every emitted token in order, with the target's logits of its row (only if
  /// options.logprobs >= 0) and the drafter's name (empty: not drafted); true ends the answer with it.
  std::function<bool(std::int32_t token, std::span<const float> logits, std::string_view by)> on_token;
  /// If set: called for every row of the prompt but the last, in order, with the target's logits after that
  /// row's token. The prompt is then read in chunks of a round's rows, for which there is memory for logits.
  std::function<void(std::int64_t row, std::span<const float> logits)> on_prompt_row;
  /// If set: called in every round with the reason for its depth.
  std::function<void(std::string why)> on_depth;

  Finish finish = Finish::kNone;
  Error error;  // if finish is kError
  SpeculationReport report;

  int output_tokens() const { return static_cast<int>(tokens.size()) - prompt_tokens; }
  bool prefilled() const { return timeline->length() + 1 == static_cast<std::int64_t>(tokens.size()); }
};

/// The size of one round, for the cost model and the metrics.
struct RoundShape {
  int slots = 0, rows = 0, deepest = 0;
  double draft_steps = 0;  // in passes of one network (CostModel)
  int drafter = -1;        // whose draft steps these are; -1: of several, or none
  ContextRead read;
  int backlog_rows = 0;  // draft backlog: rows that drafters had left from earlier rounds
  double device_ms = 0;  // that the host waited for a device; 0: steps run on the host
};

class Round {
 public:
  /// `captured`: where the target's hidden rows go. `max_depth`: of drafts of a slot, at most
  /// kMaxDraftTokens. `images`: the embeddings of image tokens; null: prompts are text.
  Round(Executable& target, State& state, int slots, const CapturedSet& captured = {},
        int max_depth = kMaxDraftTokens, const ImageRows* images = nullptr);

  /// Adds up to `rows` prompt tokens to the slot's timeline and shows them to its drafter.
  Status prefill(Slot& slot, int rows);
  /// The rest of several prompts in one step. They are text, and their rows together at most a step's.
  /// kExhausted if one does not fit into memory; then none has been read.
  Status prefill_together(std::span<Slot* const> slots);
  /// One round for slots that are prefilled and not finished, at least one. Emits at least one token for each
  /// slot.
  /// `drafts` false: slots with a chosen depth draft only the tokens that their constraint forces.
  RoundShape run(std::span<Slot* const> slots, const CostModel& costs, bool drafts = true);
  /// Called once in each round, as soon as a step is submitted: the host's work while a device computes.
  void meanwhile(std::function<void()> work) { meanwhile_ = std::move(work); }

 private:
  struct Entry {
    Slot* slot = nullptr;
    DraftSlot draft;
    Drafter* source = nullptr;               // offers the drafts; null: none does, or the constraint
    int context_class = 0;                   // of the offer
    Drafter* text = nullptr;                 // its text follows the source's drafts
    int text_class = 0;                      // of that text
    int own = 0;                             // drafts of the source, where text follows
    int allowed = 0;                         // drafts that request and context leave room for
    std::array<Offer, kMaxDrafters> offers;  // the first offer_count are in use
    std::array<Drafter*, kMaxDrafters> offering{};
    std::size_t offer_count = 0;
    bool jump_forward = false;  // the constraint's drafts, no drafter's
    std::optional<Txn> txn;
    int first_row = 0;
    std::array<Distribution, kMaxDraftTokens> proposal;  // rejection sampling only

    /// The author of the draft: a drafter's name, or "grammar" if nothing else is allowed.
    std::string_view author(int of_draft) const {
      if (jump_forward) return "grammar";
      if (text != nullptr && of_draft >= own) return text->name();
      return source != nullptr ? source->name() : std::string_view();
    }
    /// The drafter of this round; null: none.
    Drafter* drafter() const { return draft.depth == 0 || jump_forward ? nullptr : source; }
    /// Takes the results of prepare() and gather_offers() from an entry that has no transaction yet.
    void take_plan(const Entry& from) {
      slot = from.slot, draft = from.draft, source = nullptr, text = nullptr, jump_forward = false;
      allowed = from.allowed, offers = from.offers, offering = from.offering, offer_count = from.offer_count;
    }
    void abandon_drafts() {
      draft.drafted = draft.backlog_rows = 0;
      draft.known = true;
      slot->drafter_failed = true;
    }
    bool reads_logits() const { return slot->options.logprobs >= 0 || draft.rejection; }
  };
  /// The next rows of a prompt.
  struct PromptPart {
    Slot* slot = nullptr;
    int rows = 0;
    bool last = false;  // of this prompt
  };
  static int prompt_left(const Slot& slot);
  Status read_prompts(std::span<const PromptPart> parts);
  void add_prompt_rows(const PromptPart& part);
  void show_prompt_rows(std::span<const PromptPart> parts, const StepResult& result);
  void plan(std::span<Slot* const> slots, const CostModel& costs, bool drafts);
  void prepare(Entry& entry, Slot& slot, std::size_t place);
  void place_drafts(Entry& entry, std::size_t place);
  void plan_batch(std::span<Slot* const> slots, const CostModel& costs, const RoundSoFar& plain);
  void plan_depth(Entry& entry, const CostModel& costs, const RoundSoFar& others);
  void gather_offers(Entry& entry, const CostModel& costs);
  static int room_after(const Entry& entry);
  void continue_drafts(Entry& entry, const CostModel& costs);
  RoundSoFar others_of(const Entry& entry) const;
  static void note_drafts(const Entry& entry, int accepted, int counted);
  void note_plan(const Entry& entry, const CostModel& costs, RoundSoFar& others);
  static bool take_jump_forward(Entry& entry, int allowed);
  static void drop_drafter(Slot& slot, Drafter& failed);
  void observe(Slot& slot, std::span<const std::int32_t> tokens, bool prompt);
  static void keep_allowed(Entry& entry);
  void add_masks(Entry& entry);
  void propose(const CostModel& costs);
  void work_meanwhile();
  void capture_rows(const Slot& slot, int rows);
  CapturePlaces capture_places() const;
  void place_rows(const Slot& slot, int rows);
  StepResult verify();
  int rows_kept(const Entry& entry, int rows) const;
  int emit(Entry& entry, const StepResult& verified);
  int accept_by_rejection(Entry& entry, const StepResult& verified, std::vector<std::int32_t>& emitted);
  void commit(Entry& entry, int keep);
  static void abandon(Entry& entry);
  void finish_if_over(Slot& slot, std::int32_t token);

  Executable& target_;
  State& state_;
  CapturedSet captured_;
  const CapturedRows* ring_ = nullptr;  // any of them: they share their places; null: there is none
  const ImageRows* images_;
  int max_depth_;
  std::function<void()> meanwhile_;  // empty: nothing
  bool worked_ = false;              // meanwhile_ was called in this round
  std::vector<Entry> entries_;
  std::size_t active_ = 0;  // entries in use
  RoundShape shape_;
  BatchPlanner batch_;
  bool together_ = false;             // batch_ planned this round
  std::vector<BatchSlot> prospects_;  // [slot of the round]
  SampleScratch scratch_;
  Distribution target_distribution_;
  // One step's arguments, reused.
  std::vector<std::int32_t> round_tokens_, tokens_, logit_rows_, emitted_, captures_, embeddings_;
  std::vector<Coordinates> coordinates_;  // of a step with images only
  std::vector<Segment> segments_;
  std::vector<SampleRow> samples_;
  std::vector<DraftSlot*> proposing_;
};

}  // namespace ft
