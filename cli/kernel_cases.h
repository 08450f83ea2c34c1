// Tiny programs of one kind of instruction at the sizes of published models: what `bench kernels` runs. Each
// holds as many copies of its instruction as it takes to be larger than any cache, so that every copy's
// weights or state come from memory. Owner: the cases; the pool owns the weights. Thread: one. Cost: of the
// pool, once a size. Errors: kInvalid for a filter that leaves nothing, with what there is.
#pragma once

#include <string>
#include <vector>

#include "cli/synth_pool.h"
#include "cli/synth_shapes.h"
#include "program/program.h"

namespace ft::cli {

/// What to measure; an empty list: all.
struct KernelFilter {
  std::vector<std::string> instructions, models, shapes, formats;
  int group = 64;              // of affine formats
  std::int64_t context = 512;  // positions before the rows
  int kv_bits = 16;            // of cached keys and values
};

/// A format of weights: "4", "8" ... affine bits, "mxfp4", "mxfp8", "nvfp4", "bf16", "f16", "f32".
struct KernelFormat {
  std::string name;
  Format format = Format::kAffine;
  int bits = 0, group = 0;
};

struct KernelCase {
  std::string instruction;  // "linear"
  std::string model;        // "qwen3.5-4b", or "" for a shape of the user's own
  std::string role;         // "gate_up"
  std::string shape;        // "9216+9216x2560": outputs by inputs; "16/32x128"
  KernelFormat format;      // of the weights; name "-" where there are none that count
  Shape sizes;
  std::vector<std::int64_t> outputs;  // of linear and logits
  std::int64_t inputs = 0;
  double memory_bytes = 0;  // that one instruction must take from memory; 0: it works in the caches
  double macs_per_row = 0;  // 0: not counted
};

/// Names for --only, --shape and --format.
std::vector<std::string> kernel_instructions();
std::vector<std::string> kernel_roles();
std::vector<std::string> kernel_formats();

Result<std::vector<KernelCase>> kernel_cases(const KernelFilter& filter);

/// `copies` times the instruction of `kernel`.
Program kernel_program(const KernelCase& kernel, int copies, SynthPool& pool);
/// Floats of the widest row that the program takes from StepArgs::hidden; 0: none.
std::int64_t kernel_input_width(const Program& program);

}  // namespace ft::cli
