// A backend compiles programs and runs them in steps. This is the contract; backends/ref, cpu, cuda and
// metal implement it.
//   Backend::compile            packs weights and plans memory, once per program
//   Backend::make_state         the memory of timelines: key/value blocks, rings, recurrent states, tapes
//   Backend::make_rows          hidden rows that stay in the backend's memory (program/rows.h)
//   Executable::submit          begins one pass over the list for the rows of one step
//   Executable::submit_samples  gives the samples of a step later, where masks are computed meanwhile
//   Executable::collect         waits for all that was submitted; then the results can be read
// Steps run in the order of submit(), whatever their executable. A step may refer to tokens and hidden rows
// of earlier steps by place, so draft - verify - sample needs no host in between.
// Thread: one engine thread calls everything here, except where a comment allows a second one. A backend
// manages its own workers. A step allocates nothing after warm-up and takes no lock.
// Errors: compile, make_state and make_rows return them. submit and collect throw std::exception if the
// machine fails under them; the timelines of the steps since the last collect are lost then. They throw
// BackendLost if no later step can succeed either. sched/scheduler.cpp catches both.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "program/profile.h"
#include "program/program.h"
#include "program/rows.h"
#include "program/sample_row.h"

namespace ft {

inline constexpr int kBlockRows = 32;    // positions in a key/value block
inline constexpr int kMaxTapeRows = 16;  // unconfirmed rows of one timeline in one step
/// Rows of a timeline kept before a convolution, position p at p % kRing. A rejected step may look back at
/// kernel width + kMaxTapeRows + 1 rows, so it is at least that; a power of two.
inline constexpr int kRing = 32;

/// The backend cannot run any further step: its device is gone. The text says why.
class BackendLost : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The memory of one timeline. Positions [b * kBlockRows, (b + 1) * kBlockRows) are in block blocks[b].
struct SequenceView {
  std::span<const std::int32_t> blocks;
  std::int32_t slot = 0;    // recurrent states and convolution ring
  std::int32_t replay = 0;  // rows of tape `tape` that were kept and are not yet in the recurrent state
  std::int32_t tape = 0;    // 0 or 1: the tape to replay; this step's unconfirmed rows go to the other one
};

/// Consecutive rows of one timeline. The first `confirmed` rows are certain to be kept (prompt, pending
/// token): after the step the recurrent state includes them. The others (drafts) leave only tape entries, at
/// most kMaxTapeRows.
struct Segment {
  SequenceView sequence;
  std::int64_t position = 0;  // of the first row
  std::int32_t rows = 0;
  std::int32_t confirmed = 0;
};

/// A row's position on the three axes of M-RoPE: time, height, width. In text all three are equal.
using Coordinates = std::array<std::int32_t, 3>;

/// Plain data. submit() copies what the step needs, so the caller may reuse its vectors at once.
struct StepArgs {
  std::span<const std::int32_t> tokens;      // [rows]; t < 0 means round_tokens[-1 - t]
  RowPlaces hidden;                          // rows that Input 0 takes, for programs that have one
  std::span<const Segment> segments;         // in row order, of different timelines
  std::span<const std::int32_t> logit_rows;  // ascending rows whose logits are computed
  std::span<const SampleRow> samples;        // one per logit row, or empty: logits only
  /// The round's token buffer. Steps write it (SampleRow::store) and read the tokens of earlier steps; the
  /// host reads it after collect(). Steps do not see values that the host writes there.
  std::span<std::int32_t> round_tokens;
  CapturePlaces capture = {};  // where captured rows go; never a place that `hidden` names
  bool logits = true;          // StepResult::logits is read; false saves a device the copy
  /// [rows], for Attention::frequency_axes; empty: each row has its position on all axes.
  std::span<const Coordinates> coordinates = {};
  /// Rows that Embed uses instead of rows of its table (images); for a place < 0 it uses the table's row.
  RowPlaces embeddings = {};
  /// The samples come later, in submit_samples(); `samples` is empty until then.
  bool samples_follow = false;
  /// [Input::number] the stores of further inputs, at the places of `hidden`.
  std::array<RowStore*, kMaxInputs> more_hidden = {};

  /// The rows that an input takes.
  RowPlaces input(int number) const {
    return number == 0 ? hidden : RowPlaces{more_hidden[static_cast<std::size_t>(number)], hidden.places};
  }
};

/// Views into the executable's memory, valid until its next submit.
struct StepResult {
  std::span<const float> logits;          // [logit rows, vocabulary or Logits::ids]; empty if not asked for
  std::span<const std::int32_t> sampled;  // [logit rows] token ids, if samples were given
  /// Time that collect() waited for a device; 0: the steps ran inside submit().
  std::int64_t waited_ns = 0;
};

/// The part of a block that belongs to layers with a sliding window. {}: there is none.
struct SlidingWindowPart {
  int positions = 0;             // of the widest window
  std::int64_t block_bytes = 0;  // of one block's part
};

/// The memory of a program's timelines. timeline/ decides which block and slot belongs to whom.
/// Copies and writes are in order with steps. copy_* may return before they are done; read_* and write_*
/// wait. Reads are not in order with steps: settle() comes before them. One second thread may read blocks and
/// slots that no step writes meanwhile.
class State {
 public:
  virtual ~State() = default;
  virtual void copy_block(std::int32_t from, std::int32_t to) = 0;
  virtual void copy_slot(std::int32_t from, std::int32_t to) = 0;
  virtual std::int64_t bytes() const = 0;  // of all blocks and slots; those never used are not there yet
  virtual std::int64_t block_bytes() const = 0;
  virtual std::int64_t slot_bytes() const = 0;  // 0: a program without recurrent state
  /// Waits for the steps and copies submitted before this call, not for later ones. Any thread.
  virtual void settle() const {}
  /// The contents of a block or slot, [block_bytes()] or [slot_bytes()]; only the same backend and
  /// layout can read them. A span of block_bytes() - sliding_window_part().block_bytes leaves that part
  /// out.
  virtual void read_block(std::int32_t block, std::span<std::byte> out) const = 0;
  virtual void write_block(std::int32_t block, std::span<const std::byte> in) = 0;
  virtual void read_slot(std::int32_t slot, std::span<std::byte> out) const = 0;
  virtual void write_slot(std::int32_t slot, std::span<const std::byte> in) = 0;
  virtual SlidingWindowPart sliding_window_part() const { return {}; }
  /// No row reads the windowed part of this block until it is written again. In order with steps.
  virtual void release_sliding_window(std::int32_t block) { (void)block; }
  /// Unused blocks and slots: their memory may return to the system until they are used again. Call it
  /// between two steps. The default keeps the memory.
  virtual void release_unused(std::span<const std::int32_t> blocks, std::span<const std::int32_t> slots) {
    (void)blocks, (void)slots;
  }
};

struct StateOptions {
  int slots = 1;   // timelines that may exist at once
  int blocks = 1;  // key/value blocks of kBlockRows positions, shared by all timelines
  /// Timelines release keys and values outside every window, so few blocks keep their windowed part.
  bool releases_sliding_windows = false;
};

/// The candidates that a Walk chooses from in one row, for the host.
struct WalkCandidates {
  std::vector<std::int32_t> ids;  // ascending
  std::vector<float> scores;      // after a predecessor
};

class Executable {
 public:
  virtual ~Executable() = default;
  /// Begins a step. A backend that works alone on its device only records it here.
  virtual void submit(const StepArgs& args, State& state) { result_ = run(args, state); }
  /// Whether a step may leave its samples for submit_samples(): true if a device computes meanwhile.
  virtual bool samples_later() const { return false; }
  /// Gives the samples of the last step, which was submitted with samples_follow. `args`: the same, with the
  /// samples. Before collect() and the next submit.
  virtual void submit_samples(const StepArgs& /*args*/) {}
  /// Waits for everything that was submitted to the backend. Returns the results of this executable's last
  /// step; from then on, not before, round_tokens and captured rows can be read.
  virtual StepResult collect() { return result_; }
  /// submit and collect in one.
  virtual StepResult run(const StepArgs& args, State& state) = 0;
  virtual int vocabulary() const = 0;  // columns of logits
  /// Token ids of those columns, ascending (Logits::ids and the extra ones); empty: column v is token v.
  /// Valid until add_draft_tokens.
  virtual std::span<const std::int32_t> ids() const = 0;
  /// Gives tokens without a column an extra one (Logits::extra), if there are any, in place of the ids that
  /// were added longest ago. For steps submitted from now on.
  virtual void add_draft_tokens(std::span<const std::int32_t> tokens) = 0;
  /// For a program with a Walk, after collect() of a step with StepArgs::logits: the candidates of logit row
  /// `row` under `mask` after the token `predecessor`, for drafts that the host must draw one by one.
  virtual void walk_candidates(std::size_t /*row*/, std::int32_t /*predecessor*/,
                               std::span<const std::uint32_t> /*mask*/, WalkCandidates& /*out*/) const {}
  virtual std::int64_t packed_bytes() const = 0;  // memory that the packed weights take

 private:
  StepResult result_;  // of run(), until collect()
};

struct CompileOptions {
  int max_rows = 256;            // rows of one step, all segments together
  int max_logit_rows = 16;       // rows with logits
  Profiler* profiler = nullptr;  // receives times of the executable's steps; null: none
};

/// Memory and sizes of a backend, known before anything is allocated.
struct Limits {
  std::int64_t block_bytes = 0;                // of a State of this layout, per block
  std::int64_t slot_bytes = 0;                 // for each slot
  SlidingWindowPart sliding_window_part = {};  // of block_bytes
  std::int64_t memory_bytes = 0;               // that the backend may use; 0: the machine's memory
  int prefill_chunk = 256;                     // prompt rows of one step that it prefers
};

/// The timelines that a program serves at once, and its largest step.
struct Occupancy {
  int slots = 1;                          // timelines
  std::int64_t blocks = 1;                // key/value blocks of each
  int window_blocks = 0;                  // at most this many keep their windowed part; 0: all of them
  std::int64_t rows = 1, logit_rows = 1;  // of a step
};

/// Bytes that a program takes on a backend.
struct ProgramMemory {
  std::int64_t weights = 0;     // as stored; packed ones may differ
  std::int64_t key_values = 0;  // of all blocks, and their windowed parts unless those are limited
  std::int64_t states = 0;      // of all slots, with windowed parts that are limited
  std::int64_t scratch = 0;     // activations of a step, at most
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;
  /// Instruction set, threads and device, for `doctor` and reports.
  virtual std::string describe() const = 0;
  /// Everything that the bits of its results depend on: describe() without the rest.
  virtual std::string arithmetic() const { return describe(); }
  virtual Limits limits(const StateLayout& layout) const = 0;
  /// Memory of the program, before it is compiled. The default takes states from limits() and bounds the
  /// scratch by the widest instruction; a backend that knows its plan gives a closer figure.
  virtual ProgramMemory memory_for(const Program& program, const Occupancy& use) const;
  /// kUnsupported if it lacks something that the program needs; compile() refuses it with the same sentence.
  virtual Status check_supported(const Program& /*program*/) const { return {}; }
  /// The numbers of workers that its small steps (a few rows) may have, ascending. Empty: no choice.
  virtual std::vector<int> worker_choices() const { return {}; }
  /// From now on small steps have at most `workers` workers; 0: all. It changes times, never a bit.
  virtual void use_workers(int /*workers*/) {}
  /// GB/s that a copy in its own memory reaches, measured now; 0: it works in the machine's memory.
  virtual double measured_bandwidth_gb_s() { return 0; }
  virtual Result<std::unique_ptr<Executable>> compile(const Program& program,
                                                      const CompileOptions& options) = 0;
  virtual Result<std::unique_ptr<State>> make_state(const StateLayout& layout,
                                                    const StateOptions& options) = 0;
  /// kExhausted if there is no memory for them. Rows that were never written cost nothing.
  virtual Result<std::unique_ptr<RowStore>> make_rows(int width, int capacity) = 0;
  /// The same for rows that cross to another backend. The default copies them through the host's memory.
  virtual Result<std::unique_ptr<RowBorder>> make_border(int width, int capacity);
};

}  // namespace ft
