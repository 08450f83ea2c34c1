// The executable of the metal backend: weights packed once, rows in one buffer, the launches of each
// instruction encoded in order. A step of a target that samples waits for its logits: tokens are sampled on
// the host, as Metal has no double. Others (chunks of a prompt, passes of a drafter, drafts.h) are submitted
// without waiting, at most three at a time. Cost: no allocation in a step, except where a context or a chunk
// is longer than any before. Errors: compile() as Result; a step throws the device's errors.
#pragma once

#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "backends/extra_ids.h"
#include "backends/metal/device.h"
#include "backends/metal/drafts.h"
#include "backends/metal/kernels/arguments.h"
#include "backends/metal/packing.h"
#include "backends/metal/round_tokens.h"
#include "backends/metal/row_plan.h"
#include "backends/metal/state.h"
#include "backends/metal/weights.h"
#include "program/backend.h"
#include "sampling/sample.h"

namespace ft::metal {

/// Memory that grows to the size that a step needs.
template <class T>
void reserve(const std::shared_ptr<Device>& device, Memory& memory, std::size_t count);

/// Results of an instruction's kernels for the next ones. The host neither reads nor writes it and launches
/// are in order, so all steps share it.
class Scratch {
 public:
  explicit Scratch(std::shared_ptr<Device> device) : device_(std::move(device)) {}
  /// At least `bytes`; their values are not defined.
  Place take(const char* name, std::size_t bytes);

 private:
  std::shared_ptr<Device> device_;
  std::map<std::string, Memory, std::less<>> memory_;
};

/// Numbers of the step, in buffers that the host writes and kernels read.
class StepMemory {
 public:
  StepMemory(std::shared_ptr<Device> device, int max_rows);
  /// A step's tokens, segments, blocks and places.
  void fill(const StepArgs& args);
  /// Its rows that the device drafts.
  void fill_drafts(std::span<const SampleRow> samples, std::int64_t columns);
  /// Positions that each row sees in an attention layer.
  Place seen(const StepArgs& args, const Attention& op);
  /// Cosines and sines of each row for a layer's frequencies.
  Place turns(const StepArgs& args, const Attention& op);

  Place tokens() const { return tokens_.at(); }
  Place segments() const { return segments_.at(); }
  Place blocks() const { return blocks_.at(); }
  Place logit_rows() const { return logit_rows_.at(); }
  Place drafts() const { return drafts_.at(); }
  /// The places of a step's hidden, embedded or captured rows.
  Place places(const char* name, std::span<const std::int32_t> places);
  /// Logits of a part that top-k of any row keeps.
  unsigned kept() const { return kept_; }
  int longest() const { return longest_; }
  unsigned rows() const { return static_cast<unsigned>(rows_); }
  void begin_step() { made_seen_ = made_turns_ = 0; }

 private:
  struct Seen {
    int window;
    bool causal;
    Memory rows;
  };
  struct Turns {
    std::vector<float> frequencies;
    std::vector<std::uint8_t> axes;
    float scale;
    Memory values;
  };
  std::shared_ptr<Device> device_;
  int max_rows_;
  Memory tokens_, segments_, blocks_, logit_rows_, drafts_;
  std::vector<std::int32_t> first_blocks_;  // of each segment, in blocks_
  std::map<std::string, Memory, std::less<>> places_;
  std::vector<std::unique_ptr<Seen>> seen_;
  std::vector<std::unique_ptr<Turns>> turns_;
  std::uint64_t made_seen_ = 0, made_turns_ = 0;  // bits of those that this step has filled
  std::size_t rows_ = 0;
  unsigned kept_ = 0;
  int longest_ = 0;
};

/// The data that instructions need to encode themselves.
struct Step {
  Device* device = nullptr;
  StepMemory* memory = nullptr;
  Scratch* scratch = nullptr;
  const StepArgs* args = nullptr;
  MetalState* state = nullptr;
  const Memory* arena = nullptr;
  const RowPlan* plan = nullptr;
  Place logits{};  // [max_logit_rows, columns]
  Place ids{};     // of the columns; without a buffer: column v is token v
  Place chosen{};  // [max_logit_rows] tokens
  Place round{};   // the round's tokens by place
  Drafts drafts = Drafts::kNone;
  std::size_t columns = 0;
  unsigned rows = 0;

  Place row(Row handle) const { return arena->at(plan->offset(handle)); }
};

#define FT_DECLARE(Op) void encode(const Step& step, const Op& op, const Parts& parts);
FT_INSTRUCTIONS(FT_DECLARE)
#undef FT_DECLARE

/// Makes the pipelines of all kernels that the program's instructions launch by name, so that none is made in
/// the middle of an answer. kUnsupported with the name of one that the device lacks, or runs with too few
/// threads (its registers decide how many).
Status make_pipelines(const Device& device, const Program& program);
/// Launches kernel `name` on a matrix of elements: a thread each.
void launch(const Step& step, std::string_view name, std::initializer_list<Place> buffers,
            std::span<const std::byte> args, Grid grid, int threads);
/// y [rows, matrix.rows] = matrix * x [rows, matrix.cols].
void multiply(const Step& step, const PackedMatrix& matrix, Place x, Place y, unsigned rows,
              std::size_t y_stride);

template <class Args>
std::span<const std::byte> as_args(const Args& args) {
  return std::as_bytes(std::span(&args, 1));
}

/// packed_cache: where matrices are kept between starts; empty: they are not. round: null: tokens are passed
/// by place between steps of this executable alone.
Result<std::unique_ptr<Executable>> compile(const std::shared_ptr<Device>& device, const Program& program,
                                            const CompileOptions& options,
                                            const PackedCacheOptions& packed_cache = {},
                                            std::shared_ptr<RoundTokens> round = nullptr);

}  // namespace ft::metal
