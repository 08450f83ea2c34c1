// A drafter guesses the next tokens of a sequence. It can change the speed of an answer, never the answer:
// the round verifies every guess. One Drafter serves all slots of a round, so a network runs once for the
// whole batch.
//   observe     committed rows, in order, from the first prompt token on
//   plan        how many tokens it could offer now; draft_cost() is their cost
//   propose     fills `drafts` of each slot, at most `depth`
//   save        its memory of a sequence; restore begins another one with it
// Thread: the engine thread. Errors: kExhausted from open. If observe fails or throws, the round continues
// without the drafter for that slot; if propose does, without drafts in that round.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/byte_stream.h"
#include "base/result.h"
#include "program/backend.h"
#include "program/positions.h"
#include "sampling/constraint.h"
#include "sampling/distribution.h"

namespace ft {

class TimelinePool;

/// The maximum number of drafts of one sequence in one round: with the pending token they are kMaxTapeRows
/// rows. Also the maximum depth that a request may ask for, and the decoder's default.
inline constexpr int kMaxDraftTokens = kMaxTapeRows - 1;
/// Drafters that one decoder may have.
inline constexpr int kMaxDrafters = 12;

/// One sequence as its drafter sees it during a round. Spans are valid until the round ends.
struct DraftSlot {
  int id = 0;  // 0..slots - 1, the same from open to close
  std::span<const std::int32_t>
      tokens;  // prompt and output; the last one is pending: not yet in the target's timeline
  int prompt_tokens = 0;
  std::span<const std::int32_t> predicted;  // text that the caller expects, or empty
  std::uint64_t owner = 0;                  // whose texts may be drafted from
  SampleRow sample;  // sampler, history, bias and mask of the next token; position = tokens.size()
  Constraint* constraint = nullptr;  // if set: the masks of tokens after drafts
  bool rejection = false;            // draft with independent noise and report the distributions
  int depth = 0;                     // wanted now
  /// In propose only, for drafters that read the target's own keys and values: the blocks of its timeline, of
  /// which the first `target_rows` positions are committed. Nothing may write there.
  std::span<const std::int32_t> target_blocks;
  std::int64_t target_rows = 0;

  int drafted = 0;                 // out
  bool known = true;               // out: the host has the drafts; false: only the device, until collect()
  int backlog_rows = 0;            // out: rows of earlier tokens that the drafter had left for now
  std::span<std::int32_t> drafts;  // out: [the decoder's limit], part of the round's token buffer
  std::int32_t store = 0;          // index of drafts[0] in the round's token buffer
  std::array<Distribution, kMaxDraftTokens>* proposal =
      nullptr;  // out if `rejection`: drafts[i] was drawn from it

  /// The decoder's limit.
  int max_depth() const { return static_cast<int>(drafts.size()); }
};

/// The state of a drafter for one sequence, beyond its tokens, kept so that another sequence can begin with
/// it. It may outlive its slot, but not its drafter.
class DraftMemory {
 public:
  virtual ~DraftMemory() = default;
  /// Number of the drafter that made it.
  virtual int drafter() const = 0;
  /// The part that this drafter made, or null.
  virtual const DraftMemory* part(int number) const { return number == drafter() ? this : nullptr; }
  /// It covers any first `length` rows of its sequence, low() <= length.
  virtual std::int64_t low() const = 0;
  virtual std::int64_t bytes() const = 0;                    // without blocks and a slot of its cache
  virtual std::span<const std::int32_t> blocks() const = 0;  // of the drafter's cache, which it shares
  /// Writes all of it, for its drafter's read_memory() on the same backend; any thread may call it. False on
  /// a short write.
  virtual bool write_to(ByteSink& sink) const = 0;
};

class Drafter {
 public:
  virtual ~Drafter() = default;
  /// The word of `--drafter` and of reports.
  virtual std::string_view name() const = 0;
  /// Its place among the drafters of its decoder: names its acceptance estimate and its memories.
  int number() const { return number_; }
  void set_number(int number) { number_ = number; }

  /// `position`: of the first row that it will observe.
  virtual Status open(int slot, std::int64_t position) = 0;
  virtual void close(int slot) = 0;
  /// After open() or restore(), for a sequence with images: where its tokens are. `positions` lives until
  /// close().
  virtual void set_positions(int /*slot*/, const PositionMap& /*positions*/) {}
  /// Whether observe() needs the hidden rows of its tokens in the ring of captured rows.
  virtual bool reads_rows() const { return false; }
  /// Receives the tokens of the next rows that the target has committed; `prompt`: rows of a prompt.
  virtual Status observe(int slot, std::span<const std::int32_t> tokens, bool prompt) = 0;

  /// Tokens that propose could offer for this slot, 0..slot.max_depth().
  virtual int plan(const DraftSlot& slot) = 0;
  /// Classes of context; acceptance is estimated for each class separately.
  static constexpr int kContextClasses = 4;
  /// The class of plan()'s last result for this slot, 0..kContextClasses - 1.
  virtual int context_class(int /*slot*/) const { return 0; }
  /// The assumed acceptance of its first draft before any round.
  virtual double first_guess(int /*context_class*/) const { return 0.7; }
  /// Draft steps that it needs before the first draft of this slot, because it has not seen all its tokens.
  virtual double catch_up(const DraftSlot& /*slot*/) const { return 0; }
  /// The drafters among which the round chooses for this slot; empty: this one alone drafts.
  virtual std::span<Drafter* const> members(int /*slot*/) const { return {}; }
  /// One of members() failed for this slot and is not asked again. False: none is left.
  virtual bool drop_member(int /*slot*/, Drafter& /*member*/) { return false; }
  /// Draft steps (passes of a network) that `depth` drafts take: 0 for text that already exists,
  /// `depth` for a chain, 1 for a whole block. If it is 0, propose is sure to offer plan()
  /// tokens.
  virtual int draft_cost(int depth) const = 0;
  /// At most once between two calls of observe.
  virtual Status propose(std::span<DraftSlot*> slots, std::span<std::int32_t> round_tokens) = 0;
  /// Waits for the steps that propose() submitted: `drafts` of its slots hold their values then.
  virtual void collect() {}
  /// Text that continues drafts: the number of tokens, and the class of the match.
  struct Continuation {
    int count = 0;
    int context_class = 0;
  };
  /// After plan(), of a drafter without passes. Another drafter proposed the first slot.drafted of
  /// slot.drafts: writes at most `most` tokens that follow them into the places after them.
  virtual Continuation continue_drafts(DraftSlot& /*slot*/, int /*most*/) { return {}; }

  /// Called before the slot closes, with its whole text; `owner` is the user.
  virtual void learn(std::span<const std::int32_t> /*tokens*/, std::uint64_t /*owner*/) {}

  /// Whether save() can return a memory.
  virtual bool remembers() const { return false; }
  /// Whether restore() accepts this memory.
  virtual bool restores(const DraftMemory& /*memory*/) const { return false; }
  /// Its state for the slot, between two rounds; null: it needs only the tokens. kExhausted if there is no
  /// room for it.
  virtual Result<std::unique_ptr<DraftMemory>> save(int /*slot*/) { return std::unique_ptr<DraftMemory>(); }
  /// In place of open(): as if the first `length` rows of the saved sequence had been observed.
  virtual Status restore(int slot, const DraftMemory& /*memory*/, std::int64_t length) {
    return open(slot, length);
  }
  /// Reads what write_to() wrote for a memory of `length` rows. kCorrupt for other bytes, kExhausted without
  /// room.
  virtual Result<std::unique_ptr<DraftMemory>> read_memory(ByteSource& /*source*/, std::int64_t /*length*/) {
    return Error{Code::kCorrupt, "its drafter remembers nothing"};
  }
  /// Names all that decides the bytes of its memories besides weights and backend; empty: it has no memories.
  virtual std::string memory_identity() const { return {}; }

  virtual std::int64_t packed_bytes() const { return 0; }  // of the drafter's weights
  /// The pool of the drafter's cache; null: it has none.
  virtual const TimelinePool* pool() const { return nullptr; }

 private:
  int number_ = 0;
};

}  // namespace ft
