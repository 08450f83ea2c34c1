// A drafter guesses the next tokens of a sequence. It can change the speed of an answer, never the answer:
// the round verifies every guess. One Drafter serves all slots of a round, so that a network runs once for
// the whole batch.
//   observe  committed rows with the target's hidden states, in order, from the first prompt token on
//   plan     how many tokens it could offer now
//   propose  fills `drafts` of each slot, at most `depth`
//   save     what it remembers of a sequence; restore begins another one with it
// Owner: spec/decoder.h. Thread: the engine thread. Cost: see each drafter; an idle one costs nothing in a
// round. Errors: kExhausted from open; a failing propose leaves the slots' drafts empty and says why.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "base/byte_stream.h"
#include "base/result.h"
#include "program/select.h"
#include "sampling/constraint.h"
#include "sampling/distribution.h"

namespace ft {

inline constexpr int kMaxDepth = 8;

/// One sequence as its drafter sees it during a round. Spans are valid until the round ends.
struct DraftSlot {
  int id = 0;  // 0..slots - 1, the same from open to close
  std::span<const std::int32_t>
      tokens;  // prompt and output; the last one is pending: not yet in the target's timeline
  int prompt_tokens = 0;
  std::span<const std::int32_t> predicted;  // text that the caller expects, or empty
  SelectRow select;  // sampler, history, bias and mask of the next token; position = tokens.size()
  Constraint* constraint = nullptr;  // if set: the masks of tokens behind drafts
  bool ratio = false;                // draft with independent noise and report the distributions
  int depth = 0;                     // wanted now

  int drafted = 0;                 // out
  bool known = true;               // out: the host has the drafts; false: only the device, until collect()
  int late_rows = 0;               // out: rows of earlier tokens that the drafter had left for now
  std::span<std::int32_t> drafts;  // out: [kMaxDepth], part of the round's token buffer
  std::int32_t store = 0;          // index of drafts[0] in the round's token buffer
  std::array<Distribution, kMaxDepth>* proposal = nullptr;  // out if ratio: what drafts[i] was drawn from
};

/// What a drafter remembers of a sequence beyond its tokens: kept to begin another sequence with. May end
/// after the slot it came from, not after its drafter.
class DraftMemory {
 public:
  virtual ~DraftMemory() = default;
  /// It can stand for any first `length` rows of its sequence, low() <= length.
  virtual std::int64_t low() const = 0;
  virtual std::int64_t bytes() const = 0;                    // beside blocks and a slot of its cache
  virtual std::span<const std::int32_t> blocks() const = 0;  // of its own cache, which it shares
  /// All of it, for its drafter's program on the same backend; any thread may. False if the sink took not
  /// all.
  virtual bool write_to(ByteSink& sink) const = 0;
};

class Drafter {
 public:
  virtual ~Drafter() = default;
  /// The word of `--drafter` and of reports.
  virtual std::string_view name() const = 0;
  /// `position`: of the first row that it will observe.
  virtual Status open(int slot, std::int64_t position) = 0;
  virtual void close(int slot) = 0;
  /// Whether save() has anything to give.
  virtual bool remembers() const { return false; }
  /// What it knows of the slot now, between two rounds; null: nothing but the tokens. kExhausted if no room
  /// is left for it.
  virtual Result<std::unique_ptr<DraftMemory>> save(int /*slot*/) { return std::unique_ptr<DraftMemory>(); }
  /// In place of open(): as if the first `length` rows of the saved sequence had been observed.
  virtual Status restore(int slot, const DraftMemory& /*memory*/, std::int64_t length) {
    return open(slot, length);
  }
  /// Whether observe() needs the target's hidden rows of those tokens in the ring of captured rows.
  virtual bool reads_rows() const { return false; }
  /// The tokens of the next rows that the target has committed; `prompt`: of a prompt, not of a round.
  virtual Status observe(int slot, std::span<const std::int32_t> tokens, bool prompt) = 0;
  /// Tokens that propose could offer for this slot, 0..kMaxDepth.
  virtual int plan(const DraftSlot& slot) = 0;
  /// True if what plan() found last for this slot costs no pass of a network; plan() was then the number of
  /// tokens that it is sure to offer.
  virtual bool free_of_cost(int slot) const = 0;
  /// At most once between two calls of observe.
  virtual Status propose(std::span<DraftSlot*> slots, std::span<std::int32_t> round_tokens) = 0;
  /// Waits for the steps that propose() submitted: `drafts` of its slots hold their values then.
  virtual void collect() {}
};

}  // namespace ft
