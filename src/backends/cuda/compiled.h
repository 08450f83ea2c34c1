// The result of the compiler (compiler.h) for a program, which the executable (executable.h) runs: launches
// in order and the memory that they point to. A second GPU runs the same kind of list on its own device.
// Owner: an executable. Thread: the engine thread.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "backends/cuda/extra_head.h"
#include "backends/cuda/kernels/draft_arguments.cuh"
#include "backends/cuda/rows.h"
#include "backends/cuda/scratch.h"
#include "backends/cuda/state.h"
#include "backends/cuda/step_memory.h"
#include "backends/cuda/weights.h"
#include "backends/walk.h"
#include "program/backend.h"

namespace ft::cuda {

inline constexpr int kGraphRows = 64;  // steps of more rows are launched one by one: their kernels are long
inline constexpr int kSplitRows = 32;  // steps of more rows attend without splitting the cache

/// Memory of a step that its launches point to.
struct StepPlaces {
  const CudaState* state = nullptr;
  std::array<const CudaRows*, kMaxInputs> hidden{};  // [Input::number]
  std::array<const CudaRows*, kMaxCaptures> captures{};
  const CudaRows* embeddings = nullptr;
  auto operator<=>(const StepPlaces&) const = default;
};

/// A step as its launches see it.
struct StepRun {
  const StepShape& shape;
  const StepPlaces& places;
  StepTable table;
  float* partials;  // of attention
  Device& device;
};
using Operation = std::function<void(const StepRun&)>;

/// A Walk: its kernels' arguments except samples and step, and the same for the host.
struct CompiledWalk {
  WalkArgs args{};
  Walker host;
  std::int64_t rows = 0;  // with logits, of a step
};

struct CompiledProgram {
  std::vector<Operation> operations;
  std::vector<int> made_for;  // by operation: its instruction
  StepMemory step;
  std::int64_t partial_floats = 0;  // of attention, for each row and split of the cache

  // The logits and their samples; vocabulary 0: there are none.
  std::int64_t vocabulary = 0;
  ExtraHead columns;
  View logits{};
  bool samples = false;
  SampleArgs sample_args{};          // without the step
  std::optional<CompiledWalk> walk;  // in place of samples' own kernels

  // Operations point to these.
  std::vector<Memory> memory;
  std::vector<SharedMemory> shared;
  std::vector<std::shared_ptr<const PackedMatrix>> packed;
};

/// Runs the samplers of this kind for the rows of `args`. `rows`: with logits.
void launch_samples(Device& device, const SampleArgs& args, DeviceSamples kind, int rows);

/// Runs the kernels of a Walk in place of the samplers.
void launch_walk(Device& device, WalkArgs walk, const SampleArgs& args, const StepShape& shape);

}  // namespace ft::cuda
