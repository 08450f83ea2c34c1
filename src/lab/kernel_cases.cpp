#include "lab/kernel_cases.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lab/instruction_cost.h"

namespace ft {
namespace {

constexpr const char* kNoWeights = "-";

struct Role {
  const char *name, *instruction;
};
constexpr Role kRoles[] = {{"delta_in", "linear"},
                           {"delta_out", "linear"},
                           {"attend_in", "linear"},
                           {"attend_out", "linear"},
                           {"gate_up", "linear"},
                           {"down", "linear"},
                           {"head", "logits"},
                           {"embed", "embed"},
                           {"attend", "attend"},
                           {"conv", "conv"},
                           {"delta_rule", "delta_rule"},
                           {"norm", "norm"},
                           {"gated_norm", "gated_norm"},
                           {"swiglu", "swiglu"},
                           {"route", "route"},
                           {"experts", "experts"},
                           {"add", "add"},
                           {"concat", "concat"}};

KernelFormat read_format(const std::string& name, int group) {
  if (name == "bf16") return {name, Format::kBf16, 0, 0};
  if (name == "f16") return {name, Format::kF16, 0, 0};
  if (name == "f32") return {name, Format::kF32, 0, 0};
  if (name == "mxfp4") return {name, Format::kMxfp4, 4, 32};
  if (name == "mxfp8") return {name, Format::kMxfp8, 8, 32};
  if (name == "nvfp4") return {name, Format::kNvfp4, 4, 16};
  return {name + "-bit g" + std::to_string(group), Format::kAffine, name.front() - '0', group};
}

bool holds(const std::vector<std::string>& list, std::string_view word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

/// An empty list accepts everything.
bool lets(const std::vector<std::string>& list, std::string_view word) {
  return list.empty() || holds(list, word);
}

/// Sizes of the matrices of a role: input width and output widths.
void set_matrices(KernelCase& kernel) {
  const Shape& s = kernel.sizes;
  const std::int64_t heads = std::int64_t{s.heads} * Shape::kHeadDim;
  const std::int64_t kv = std::int64_t{s.kv_heads} * Shape::kHeadDim;
  const std::int64_t values = std::int64_t{s.value_heads} * Shape::kLinearDim;
  const std::string& role = kernel.role;
  kernel.inputs = role == "delta_out"    ? values
                  : role == "attend_out" ? heads
                  : role == "down"       ? s.intermediate
                                         : s.hidden;
  if (role == "delta_in") kernel.outputs = {s.qkv_rows(), values, s.value_heads, s.value_heads};
  if (role == "attend_in") kernel.outputs = {2 * heads, kv, kv};
  if (role == "gate_up") kernel.outputs = {s.intermediate, s.intermediate};
  if (role == "delta_out" || role == "attend_out" || role == "down") kernel.outputs = {s.hidden};
  if (role == "head") kernel.outputs = {s.vocabulary};
  if (role == "experts") kernel.outputs = {s.expert};
}

std::int64_t width_of(const KernelCase& kernel) {
  const Shape& s = kernel.sizes;
  if (kernel.instruction == "conv") return s.qkv_rows();
  if (kernel.instruction == "swiglu") return s.intermediate;
  if (kernel.instruction == "gated_norm") return std::int64_t{s.value_heads} * Shape::kLinearDim;
  return s.hidden;
}

/// "17408x5120": a custom linear, outputs by inputs.
Result<KernelCase> own_shape(const std::string& text) {
  KernelCase kernel;
  kernel.instruction = "linear", kernel.role = "own";
  std::int64_t outputs = 0;
  const char* end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, outputs);
  if (first.ec == std::errc() && first.ptr != end && *first.ptr == 'x') {
    const auto second = std::from_chars(first.ptr + 1, end, kernel.inputs);
    if (second.ec == std::errc() && second.ptr == end && outputs > 0 && kernel.inputs > 0) {
      kernel.outputs = {outputs};
      return kernel;
    }
  }
  return Error{Code::kInvalid, fmt::format("--shape: expected OUTxIN or one of {}, found '{}'",
                                           fmt::join(kernel_roles(), ", "), text)};
}

/// The cost of a case, computed from a program with one copy.
void weigh(KernelCase& kernel, const KernelFilter& filter, const Backend& backend) {
  SynthPool nothing(0);
  if (!kernel.outputs.empty()) {
    double elements = 0;
    for (const std::int64_t rows : kernel.outputs) elements += static_cast<double>(rows * kernel.inputs);
    const bool experts = kernel.instruction == "experts";
    if (experts) elements *= 3.0 * kernel.sizes.chosen;  // of one row
    const KernelFormat& format = kernel.format;
    const double scale_bits =
        is_block_float(format.format) ? 8 : 32;  // bits per group; affine formats add a bias
    const double bits =
        format.bits == 0 ? 8.0 * element_bytes(format.format) : format.bits + scale_bits / format.group;
    kernel.memory_bytes = elements * bits / 8, kernel.macs_per_row = elements;
    kernel.shape = fmt::format("{}x{}", fmt::join(kernel.outputs, "+"), kernel.inputs);
    if (experts) kernel.shape += fmt::format(", {} of {}", kernel.sizes.chosen, kernel.sizes.experts);
    return;
  }
  if (kernel.instruction == "attend" || kernel.instruction == "delta_rule") {
    const Program program = kernel_program(kernel, 1, nothing);
    const Instruction& instruction = program.instructions().back();
    kernel.memory_bytes = static_cast<double>(instruction_bytes(instruction) +
                                              cache_bytes(instruction, filter.context, backend));
    const std::string label = instruction_label(instruction);
    kernel.shape = label.substr(label.find(' ') + 1);
    if (kernel.instruction == "attend") kernel.shape += fmt::format(" at {}", filter.context);
    return;
  }
  kernel.shape = std::to_string(width_of(kernel));
}

Weight matrix(const KernelFormat& format, std::int64_t rows, std::int64_t cols, SynthPool& pool, int number) {
  const std::string name = fmt::format("{}x{}.{}", rows, cols, number);
  const auto count = static_cast<std::size_t>(rows * cols);
  Weight weight;
  weight.name = name, weight.format = format.format;
  weight.rows = rows, weight.cols = cols;
  if (format.bits == 0) {
    // Two adjacent bf16 values read as one float32 that is close to the second.
    weight.data =
        pool.values(0.02F, count * static_cast<std::size_t>(element_bytes(weight.format)) / 2, name);
    return weight;
  }
  weight.bits = format.bits, weight.group = format.group;
  weight.data = pool.codes(count * static_cast<std::size_t>(weight.bits) / 8, name);
  const auto levels = static_cast<float>((1 << weight.bits) - 1);
  const auto groups = count / static_cast<std::size_t>(weight.group);
  if (is_block_float(weight.format)) {
    // One scale for all: 2^-13, 2^-7 or, for nvfp4, 2^-7.
    const int size = weight.format == Format::kMxfp8 ? 114 : weight.format == Format::kMxfp4 ? 120 : 4;
    std::byte* scales = pool.bytes(groups);
    std::memset(scales, size, groups);
    weight.scales = scales;
    weight.scale_format = weight.format == Format::kNvfp4 ? Format::kE4m3 : Format::kE8m0;
    return weight;
  }
  const SynthPool::Halves halves = pool.scales(0.07F / levels, levels, groups);
  weight.scales = halves.scales, weight.biases = halves.biases;
  return weight;
}

Weight plain(std::int64_t rows, std::int64_t cols, SynthPool& pool) {
  Weight weight;
  weight.name = "plain", weight.format = Format::kBf16;
  weight.rows = rows, weight.cols = cols;
  weight.data = pool.values(0.5F, static_cast<std::size_t>(rows * cols), "plain");
  return weight;
}

void add_attend(Program& program, const Shape& s, SynthPool& pool, Row q, Row k, Row v) {
  Attention attend;
  attend.q = q, attend.k = k, attend.v = v;
  attend.q_norm = attend.k_norm = plain(1, Shape::kHeadDim, pool);
  attend.heads = s.heads, attend.kv_heads = s.kv_heads, attend.head_dim = Shape::kHeadDim;
  attend.rotary = Shape::kHeadDim / 4;
  attend.inverse_frequencies.assign(static_cast<std::size_t>(attend.rotary / 2), 0.1F);
  attend.eps = 1e-6F, attend.scale = 0.0625F, attend.gated = true;
  program.attend(std::move(attend));
}

void add_delta_rule(Program& program, const Shape& s, SynthPool& pool, Row in, Row heads) {
  DeltaRule delta;
  delta.in = in, delta.a = heads, delta.b = heads;
  delta.a_log = delta.dt_bias = plain(1, s.value_heads, pool);
  delta.key_heads = s.key_heads, delta.value_heads = s.value_heads;
  delta.key_dim = delta.value_dim = Shape::kLinearDim;
  program.delta_rule(std::move(delta));
}

/// Choices from columns of the input, different ones in each copy.
Row route(Program& program, const Shape& s, Row in, int copy) {
  const int spare = std::max(1, s.hidden - s.experts);
  const Row scores = program.append(Slice{in, copy * s.experts % spare, s.experts, {}});
  return program.append(TopKRouter{scores, s.chosen, true, {}, {}});
}

/// The copies share the experts of one layer; each copy reads a few of them.
void add_experts(Program& program, const KernelCase& kernel, SynthPool& pool, Row in, int copies) {
  const Shape& s = kernel.sizes;
  MoeMlp experts;
  experts.in = in;
  for (int e = 0; e < s.experts; ++e) {
    experts.gate.push_back(matrix(kernel.format, s.expert, s.hidden, pool, 2 * e));
    experts.up.push_back(matrix(kernel.format, s.expert, s.hidden, pool, 2 * e + 1));
    experts.down.push_back(matrix(kernel.format, s.hidden, s.expert, pool, e));
  }
  for (int copy = 0; copy < copies; ++copy) {
    MoeMlp own = experts;
    own.routes = route(program, s, in, copy);
    program.append(std::move(own));
  }
}

}  // namespace

std::vector<std::string> kernel_instructions() {
  std::vector<std::string> names;
  for (const Role& role : kRoles) {
    if (!holds(names, role.instruction)) names.emplace_back(role.instruction);
  }
  return names;
}

std::vector<std::string> kernel_roles() {
  std::vector<std::string> names;
  for (const Role& role : kRoles) names.emplace_back(role.name);
  return names;
}

std::vector<std::string> kernel_formats() {
  return {"2", "3", "4", "5", "6", "8", "mxfp4", "mxfp8", "nvfp4", "bf16", "f16", "f32"};
}

Result<std::vector<KernelCase>> kernel_cases(const KernelFilter& filter, const Backend& backend) {
  std::vector<KernelCase> bare;
  const std::vector<std::string> roles = kernel_roles();
  std::vector<std::string> named;  // entries of filter.shapes that are roles
  for (const std::string& text : filter.shapes) {
    if (holds(roles, text)) {
      named.push_back(text);
      continue;
    }
    FT_ASSIGN(KernelCase kernel, own_shape(text));
    bare.push_back(std::move(kernel));
  }
  for (const std::string& name : shape_names()) {
    if (filter.models.empty() ? name.starts_with("tiny") : !holds(filter.models, name)) continue;
    for (const Role& role : kRoles) {
      if (!filter.shapes.empty() && !holds(named, role.name)) continue;
      const std::string_view instruction = role.instruction;
      if (find_shape(name)->experts == 0 && (instruction == "route" || instruction == "experts")) continue;
      KernelCase kernel;
      kernel.instruction = role.instruction, kernel.role = role.name, kernel.model = name;
      kernel.sizes = find_shape(name).value();
      set_matrices(kernel);
      bare.push_back(std::move(kernel));
    }
  }
  std::vector<KernelCase> cases;
  for (KernelCase& kernel : bare) {
    if (!lets(filter.instructions, kernel.instruction)) continue;
    const bool weighted = !kernel.outputs.empty();
    for (const std::string& format : weighted ? filter.formats : std::vector<std::string>{kNoWeights}) {
      kernel.format = weighted ? read_format(format, filter.group) : KernelFormat{kNoWeights, {}, 0, 0};
      weigh(kernel, filter, backend);
      cases.push_back(kernel);
    }
  }
  if (cases.empty()) {
    return Error{Code::kInvalid, "no case is left: that --shape has none of the instructions in --only"};
  }
  return cases;
}

Program kernel_program(const KernelCase& kernel, int copies, SynthPool& pool) {
  Program program;
  const Shape& s = kernel.sizes;
  const auto input = [&program](std::int64_t width) { return program.input(static_cast<int>(width)); };
  const std::string& name = kernel.instruction;
  if (name == "linear" || name == "logits") {
    const Row in = input(kernel.inputs);
    for (int copy = 0; copy < copies; ++copy) {
      std::vector<Weight> weights;
      for (const std::int64_t rows : kernel.outputs) {
        weights.push_back(matrix(kernel.format, rows, kernel.inputs, pool, copy));
      }
      name == "linear" ? static_cast<void>(program.linear(in, std::move(weights)))
                       : program.logits(in, weights.front());
    }
    return program;
  }
  if (name == "embed") {
    const Weight table = matrix(read_format("4", 64), s.vocabulary, s.hidden, pool, 0);
    for (int copy = 0; copy < copies; ++copy) program.embed(table);
    return program;
  }
  if (name == "attend") {
    const Row q = input(2 * std::int64_t{s.heads} * Shape::kHeadDim);
    const Row kv = input(std::int64_t{s.kv_heads} * Shape::kHeadDim);
    for (int copy = 0; copy < copies; ++copy) add_attend(program, s, pool, q, kv, kv);
    return program;
  }
  if (name == "delta_rule") {
    const Row in = input(s.qkv_rows()), heads = input(s.value_heads);
    for (int copy = 0; copy < copies; ++copy) add_delta_rule(program, s, pool, in, heads);
    return program;
  }
  const Row in = input(width_of(kernel));
  if (name == "experts") add_experts(program, kernel, pool, in, copies);
  for (int copy = 0; copy < copies; ++copy) {
    if (name == "conv") program.conv(in, plain(in.width, Shape::kConvTaps, pool));
    if (name == "norm") program.norm(in, plain(1, in.width, pool), 1e-6F);
    if (name == "gated_norm") program.gated_norm(in, in, plain(1, Shape::kLinearDim, pool), 1e-6F);
    if (name == "swiglu") program.swiglu(in, in);
    if (name == "route") route(program, s, in, copy);
    if (name == "add") program.add(in, in);
    if (name == "concat") program.concat(in, in);
  }
  return program;
}

std::int64_t kernel_input_width(const Program& program) {
  std::int64_t width = 0;
  for (const Instruction& instruction : program.instructions()) {
    if (const auto* input = std::get_if<Input>(&instruction)) {
      width = std::max<std::int64_t>(width, input->out.width);
    }
  }
  return width;
}

}  // namespace ft
