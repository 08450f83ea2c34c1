// A backend compiles programs and runs them in steps. It is a noun here: ref/ and cpu/ (later cuda/, mlx/)
// implement it.
//   Backend::compile    weights packed, memory planned, once per program
//   Backend::make_state the memory of timelines: key/value blocks, convolution rings, recurrent states with
//   their tapes Executable::run     one pass over the list for the rows of one step
// Thread: one engine thread calls everything here; a backend's own workers are its business. A step allocates
// nothing after warm-up and takes no lock. StepArgs is plain data that a device backend copies into fixed
// buffers before it replays a graph; tokens may name tokens that an earlier step of the round selected
// (round_tokens), so a chain draft - verify - select - accept needs no host in between. Errors: compile and
// make_state return them; run throws std::exception if the machine fails under it (caught in one place,
// sched/engine.cpp); the timelines of that step are lost then.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "program/profile.h"
#include "program/program.h"
#include "program/select.h"

namespace ft {

inline constexpr int kBlockRows = 32;    // positions in a key/value block
inline constexpr int kMaxTapeRows = 16;  // unsettled rows of one timeline in one step
/// Rows of a timeline kept before a convolution, position p at p % kRing: what a rejected step may have to
/// look back at, so taps + kMaxTapeRows + 1 at least; a power of two.
inline constexpr int kRing = 32;

/// Where one timeline's memory is. Positions [b * kBlockRows, (b + 1) * kBlockRows) are in block blocks[b].
struct SequenceView {
  std::span<const std::int32_t> blocks;
  std::int32_t slot = 0;    // recurrent states and convolution ring
  std::int32_t replay = 0;  // rows of tape `tape` that were kept and are not yet in the recurrent state
  std::int32_t tape = 0;    // 0 or 1: the tape to replay; this step's unsettled rows go to the other one
};

/// Consecutive rows of one timeline. The first `settled` rows are certain to be kept (prompt, pending token):
/// after the step the recurrent state stands behind them. The others (drafts) leave only tape entries, at
/// most kMaxTapeRows.
struct Segment {
  SequenceView sequence;
  std::int64_t position = 0;  // of the first row
  std::int32_t rows = 0;
  std::int32_t settled = 0;
};

struct StepArgs {
  std::span<const std::int32_t> tokens;  // [rows]; t < 0 means round_tokens[-1 - t]
  std::span<const float> hidden;         // [rows, width of Input], for programs that have one
  std::span<const Segment> segments;     // in row order, of different timelines
  std::span<const std::int32_t> wanted;  // ascending rows whose logits are computed
  std::span<const SelectRow> selects;    // one per wanted row, or empty: logits only
  std::span<std::int32_t> round_tokens;  // the round's token buffer (SelectRow::store)
};

/// Views into the executable's memory, valid until its next run.
struct StepResult {
  std::span<const float> logits;           // [wanted, vocabulary or Logits::ids]
  std::span<const std::int32_t> selected;  // [wanted] token ids, if selects were given
  std::span<const float> tap;              // [rows, width] of the program's Tap
};

/// The memory of a program's timelines. timeline/ decides which block and slot belongs to whom.
class State {
 public:
  virtual ~State() = default;
  virtual void copy_block(std::int32_t from, std::int32_t to) = 0;
  virtual void copy_slot(std::int32_t from, std::int32_t to) = 0;
  virtual std::int64_t bytes() const = 0;  // of all blocks and slots; those never used are not there yet
  virtual std::int64_t block_bytes() const = 0;
  virtual std::int64_t slot_bytes() const = 0;  // 0: a program without recurrent state
  /// What a block or slot holds, [block_bytes()] or [slot_bytes()]: bytes that mean something to the same
  /// backend and layout only.
  virtual void read_block(std::int32_t block, std::span<std::byte> out) const = 0;
  virtual void write_block(std::int32_t block, std::span<const std::byte> in) = 0;
  virtual void read_slot(std::int32_t slot, std::span<std::byte> out) const = 0;
  virtual void write_slot(std::int32_t slot, std::span<const std::byte> in) = 0;
  /// Nobody needs what these hold: the system may have their memory until they are used again. Between two
  /// steps. Without it they only stay as they are.
  virtual void give_back(std::span<const std::int32_t> blocks, std::span<const std::int32_t> slots) {
    (void)blocks, (void)slots;
  }
};

struct StateOptions {
  int slots = 1;   // timelines that may exist at once
  int blocks = 1;  // key/value blocks of kBlockRows positions, shared by all timelines
};

class Executable {
 public:
  virtual ~Executable() = default;
  virtual StepResult run(const StepArgs& args, State& state) = 0;
  virtual int vocabulary() const = 0;  // columns of logits
  /// Token ids of those columns, ascending (Logits::ids and the spare ones); empty: column v is token v.
  /// Valid until add_ids.
  virtual std::span<const std::int32_t> ids() const = 0;
  /// Names tokens: those without a column get a spare one (Logits::spare), if there are any, from the ids
  /// that were named longest ago. Between two runs.
  virtual void add_ids(std::span<const std::int32_t> tokens) = 0;
  virtual std::int64_t packed_bytes() const = 0;  // memory that the packed weights take
};

struct CompileOptions {
  int max_rows = 256;            // rows of one step, all segments together
  int max_wanted = 16;           // rows with logits
  Profiler* profiler = nullptr;  // told what each step of the executable cost; null: nothing is measured
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;
  /// What it runs on: instruction set, threads, device; for `doctor` and reports.
  virtual std::string describe() const = 0;
  /// What the bits of its results depend on: describe() less what cannot change them.
  virtual std::string arithmetic() const { return describe(); }
  virtual Result<std::unique_ptr<Executable>> compile(const Program& program,
                                                      const CompileOptions& options) = 0;
  virtual Result<std::unique_ptr<State>> make_state(const StateLayout& layout,
                                                    const StateOptions& options) = 0;
};

}  // namespace ft
