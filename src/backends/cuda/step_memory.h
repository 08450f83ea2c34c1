// The host's input for a step: a table of rows, segments, samples and blocks. It is written into the next
// turn of a ring in pinned memory, and the first kernel of the step fetches it. So steps may be submitted
// before earlier ones have run, and a graph needs no other copy. The results: logits, if they are read, and
// sampled tokens, which kernels write into pinned memory. Owner: an executable. Thread: the engine thread.
// Cost: it grows with the longest timeline.
#pragma once

#include <optional>

#include "backends/cuda/arguments.h"
#include "backends/cuda/device.h"
#include "backends/cuda/round_tokens.h"
#include "program/backend.h"

namespace ft::cuda {

/// The sampling that the device does in a step, each kind with the kernels of those before it.
enum class DeviceSamples { kNone, kGreedy, kDraws, kTopK };

/// The properties that decide the launches of a step; steps of one shape can share a graph.
struct StepShape {
  int rows = 0, logit_rows = 0, segments = 0;
  int most_rows = 0;  // of one segment, rounded up to a power of two
  int splits = 0;     // of the cache that the longest timeline has, rounded up to a power of two
  DeviceSamples samples = DeviceSamples::kNone;
  std::int64_t table_bytes = 0;
  auto operator<=>(const StepShape&) const = default;
};

/// The kind that a step's samples need; nullopt: the host must sample (filters without a small top-k).
/// `columns`: of the logits.
std::optional<DeviceSamples> device_samples(std::span<const SampleRow> samples, std::int64_t columns);

class StepMemory {
 public:
  Status make(const std::shared_ptr<Device>& device, const CompileOptions& options,
              std::shared_ptr<RoundTokens> round, std::int64_t vocabulary);

  /// Writes the arguments into the next turn; sets `moved` if earlier graphs have old addresses. Waits if
  /// all turns are in use. `samples`: the sampling that the device does with this table.
  StepShape fill(const StepArgs& args, DeviceSamples samples, bool& moved);
  void fetch(const StepShape& shape);
  /// After a step that was filled in but not launched.
  void start_again();
  /// Everything that was launched has ended.
  void ended() { busy_ = 0; }

  StepTable table(const StepShape& shape) const;
  int* sampled() const { return sampled_.at<int>(); }
  /// Copies the logits; they can be read after a wait.
  void download_logits(const StepShape& shape, View from);
  std::span<const float> logits(int logit_rows) const;

 private:
  bool reserve(std::int64_t blocks);
  StepTable table_at(std::byte* base, const StepShape& shape) const;
  void fill_segments(const StepArgs& args, const StepTable& host) const;
  static void fill_rows(const StepArgs& args, const StepTable& host);

  std::shared_ptr<Device> device_;
  CompileOptions options_;
  std::shared_ptr<RoundTokens> round_;
  std::int64_t vocabulary_ = 0;
  std::int64_t turn_bytes_ = 0, blocks_ = 0;
  int turn_ = 0, busy_ = 0;  // the next one; those that may still be read
  HostMemory ring_, logits_, sampled_;
  Memory table_, counter_;
};

/// Splits of the cache that a query at `position` reads.
int splits_of(std::int64_t position);

}  // namespace ft::cuda
