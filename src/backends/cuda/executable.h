// Runs a compiled program (compiled.h) on the GPU. A step of few rows is recorded as a graph when its shape
// has come several times; later steps of that shape are one launch. Samples with penalties, biases or masks
// are launched after the step. submit() waits for nothing, except where the host must sample
// (device_samples()). Thread: the engine thread. Cost: one wait a round. Errors: submit(), submit_samples()
// and collect() throw DeviceError or BackendLost.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "backends/cuda/compiled.h"
#include "backends/cuda/sample_memory.h"
#include "sampling/sample.h"

namespace ft::cuda {

class CudaExecutable final : public Executable {
 public:
  /// `profiler` null: nothing is measured.
  CudaExecutable(std::shared_ptr<Device> device, std::shared_ptr<RoundTokens> round, CompiledProgram compiled,
                 const Program& program, Profiler* profiler);
  ~CudaExecutable() override { round_->forget(); }  // also releases buffers of steps that were not collected

  void submit(const StepArgs& args, State& state) override;
  bool samples_later() const override { return true; }
  void submit_samples(const StepArgs& args) override;
  StepResult collect() override;
  StepResult run(const StepArgs& args, State& state) override {
    submit(args, state);
    return collect();
  }
  int vocabulary() const override { return static_cast<int>(compiled_.vocabulary); }
  std::span<const std::int32_t> ids() const override { return compiled_.columns.ids(); }
  void add_draft_tokens(std::span<const std::int32_t> tokens) override { compiled_.columns.add(tokens); }
  void walk_candidates(std::size_t row, std::int32_t predecessor, std::span<const std::uint32_t> mask,
                       WalkCandidates& out) const override;
  std::int64_t packed_bytes() const override;

 private:
  struct GraphKey {
    StepShape shape;
    StepPlaces places;
    auto operator<=>(const GraphKey&) const = default;
  };
  /// With a profiler: the index in times_ of the instruction that ends at each stamp after the first.
  using Stamps = std::vector<int>;

  void start(const GraphKey& step);
  void enqueue(const GraphKey& step);
  StepRun run_of(const GraphKey& step);
  void prepare(const StepShape& shape);
  void record(const GraphKey& step);
  void record_now(const GraphKey& step);
  void expect_samples(const StepArgs& args);
  void sample(const StepArgs& args);
  std::optional<DeviceSamples> kind_of(std::span<const SampleRow> samples) const;
  void download_factors(const StepArgs& args);

  // profile.cpp: only if the caller gave a profiler
  void profile(const Program& program);
  void enqueue_timed(const GraphKey& step);
  void start_timed(const GraphKey& step);
  void tell_profiler(const GraphKey& step, std::int64_t begin_ns);

  std::shared_ptr<Device> device_;
  std::shared_ptr<RoundTokens> round_;
  CompiledProgram compiled_;
  SampleMemory late_;
  Memory partials_;
  StepShape shape_;                       // of the step that was submitted last
  HostMemory factors_;                    // [logit rows, rank] for the host's own walk
  std::vector<std::int32_t> logit_rows_;  // of the last step whose logits the host reads
  SampleScratch scratch_;
  std::vector<std::int32_t> resolved_;  // tokens of a step whose samples the host takes
  StepResult result_;                   // of the last step, once it has ended
  std::map<GraphKey, std::unique_ptr<Graph>> graphs_;
  std::map<GraphKey, int> seen_;  // steps of a shape before it has a graph
  Profiler* profiler_;
  int profiled_as_ = 0;                // the profiler's name for this executable
  std::vector<OperationTime> times_;   // the table's copy, then by instruction; empty without a profiler
  std::map<GraphKey, Stamps> stamps_;  // of the last steps of each shape
};

}  // namespace ft::cuda
