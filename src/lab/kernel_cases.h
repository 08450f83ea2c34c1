// Small programs of one kind of instruction at the sizes of published models, for `bench kernels`. Each
// contains enough copies of its instruction to exceed every cache, so that weights and state come from
// memory. The pool owns the weights.
#pragma once

#include <string>
#include <vector>

#include "models/synthetic/pool.h"
#include "models/synthetic/shapes.h"
#include "program/backend.h"
#include "program/program.h"

namespace ft {

/// The selection to measure; an empty list means all.
struct KernelFilter {
  std::vector<std::string> instructions, models, shapes, formats;
  int group = 64;              // group size of affine formats
  std::int64_t context = 512;  // context positions
};

/// A weight format: "4", "8" ... (affine bits), "mxfp4", "mxfp8", "nvfp4", "bf16", "f16", "f32".
struct KernelFormat {
  std::string name;
  Format format = Format::kAffine;
  int bits = 0, group = 0;
};

struct KernelCase {
  std::string instruction;  // "linear"
  std::string model;        // "qwen3.5-4b", or "" for a custom shape
  std::string role;         // "gate_up"
  std::string shape;        // "9216+9216x2560": outputs by inputs; "16/32x128"
  KernelFormat format;      // weight format; name "-" if weights do not matter
  Shape sizes;
  std::vector<std::int64_t> outputs;  // output widths of linear and logits
  std::int64_t inputs = 0;
  double memory_bytes = 0;  // bytes that one instruction must read from memory; 0: it works in the caches
  double macs_per_row = 0;  // 0: not counted
};

/// Allowed values of --only, --shape and --format.
std::vector<std::string> kernel_instructions();
std::vector<std::string> kernel_roles();
std::vector<std::string> kernel_formats();

/// `backend`: its KV cache counts in the bytes of attention.
Result<std::vector<KernelCase>> kernel_cases(const KernelFilter& filter, const Backend& backend);

/// A program with `copies` copies of the instruction of `kernel`.
Program kernel_program(const KernelCase& kernel, int copies, SynthPool& pool);
/// Width in floats of the widest row that the program reads from StepArgs::hidden; 0: none.
std::int64_t kernel_input_width(const Program& program);

}  // namespace ft
