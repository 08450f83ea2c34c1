#include "program/program.h"

#include <fmt/format.h>
#include <utility>

#include "base/assert.h"

namespace ft {

Row Program::embed(const Weight& table) {
  const Row out = make(static_cast<int>(table.cols));
  instructions_.emplace_back(Embed{table, out});
  return out;
}

Row Program::input(int width) {
  const Row out = make(width);
  instructions_.emplace_back(Input{out});
  return out;
}

Row Program::norm(Row in, const Weight& weight, float eps) {
  const Row out = make(in.width);
  instructions_.emplace_back(Norm{in, weight, eps, out});
  return out;
}

std::vector<Row> Program::linear(Row in, std::vector<Weight> weights) {
  std::vector<Row> outs;
  outs.reserve(weights.size());
  for (const Weight& weight : weights) outs.push_back(make(static_cast<int>(weight.rows)));
  instructions_.emplace_back(Linear{in, std::move(weights), outs});
  return outs;
}

Row Program::attend(Attend instruction) {
  instruction.cache = static_cast<int>(layout_.caches.size());
  instruction.out = make(instruction.heads * instruction.head_dim);
  layout_.caches.push_back({instruction.kv_heads, instruction.head_dim});
  const Row out = instruction.out;
  instructions_.emplace_back(std::move(instruction));
  return out;
}

Row Program::conv(Row in, const Weight& kernel) {
  const Row out = make(in.width);
  const int taps = static_cast<int>(kernel.cols);
  instructions_.emplace_back(Conv{in, kernel, taps, static_cast<int>(layout_.windows.size()), out});
  layout_.windows.push_back({in.width, taps});
  return out;
}

Row Program::delta_rule(DeltaRule instruction) {
  instruction.state = static_cast<int>(layout_.deltas.size());
  instruction.out = make(instruction.value_heads * instruction.value_dim);
  layout_.deltas.push_back(
      {instruction.key_heads, instruction.value_heads, instruction.key_dim, instruction.value_dim});
  const Row out = instruction.out;
  instructions_.emplace_back(std::move(instruction));
  return out;
}

Row Program::gated_norm(Row in, Row gate, const Weight& weight, float eps) {
  const Row out = make(in.width);
  instructions_.emplace_back(GatedNorm{in, gate, weight, eps, out});
  return out;
}

Row Program::swiglu(Row gate, Row up) {
  const Row out = make(gate.width);
  instructions_.emplace_back(Swiglu{gate, up, out});
  return out;
}

Row Program::geglu(Row gate, Row up) {
  const Row out = make(gate.width);
  instructions_.emplace_back(Geglu{gate, up, out});
  return out;
}

Row Program::add(Row a, Row b) {
  FT_ASSERT(a.width == b.width);
  const Row out = make(a.width);
  instructions_.emplace_back(Add{a, b, out});
  return out;
}

Row Program::concat(Row a, Row b) {
  const Row out = make(a.width + b.width);
  instructions_.emplace_back(Concat{a, b, out});
  return out;
}

void Program::tap(std::string name, Row in) { instructions_.emplace_back(Tap{std::move(name), in}); }

void Program::logits(Row in, const Weight& head, std::vector<std::int32_t> ids, Spare spare) {
  instructions_.emplace_back(Logits{in, head, std::move(ids), std::move(spare)});
}

void Program::select() { instructions_.emplace_back(Select{}); }

namespace {

std::string row_text(Row row) { return fmt::format("r{}[{}]", row.id, row.width); }

std::string weight_text(const Weight& weight) {
  if (weight.empty()) return "none";
  const std::string format = weight.format == Format::kAffine
                                 ? fmt::format("affine{}g{}", weight.bits, weight.group)
                                 : std::string(format_name(weight.format));
  return fmt::format("{} {}x{} {}", weight.name, weight.rows, weight.cols, format);
}

// One overload a kind: the operands as text, and the bytes of weights that one row reads.
struct Operands {
  std::string operator()(const Embed& i) const {
    return fmt::format("{} = tokens, {}", row_text(i.out), weight_text(i.table));
  }
  std::string operator()(const Input& i) const { return fmt::format("{} = hidden", row_text(i.out)); }
  std::string operator()(const Norm& i) const {
    return fmt::format("{} = {}, {}", row_text(i.out), row_text(i.in), weight_text(i.weight));
  }
  std::string operator()(const Linear& i) const {
    std::string text;
    for (std::size_t j = 0; j < i.outs.size(); ++j) {
      text += fmt::format("{}{} = {}", j == 0 ? "" : "; ", row_text(i.outs[j]), weight_text(i.weights[j]));
    }
    return text + " * " + row_text(i.in);
  }
  std::string operator()(const Attend& i) const {
    return fmt::format("{} = q {}, k {}, v {}, {}{} heads, {} key-value heads of {}, {} rotated, cache {}",
                       row_text(i.out), row_text(i.q), row_text(i.k), row_text(i.v), i.gated ? "gated, " : "",
                       i.heads, i.kv_heads, i.head_dim, i.rotary, i.cache);
  }
  std::string operator()(const Conv& i) const {
    return fmt::format("{} = {}, {}, window {}", row_text(i.out), row_text(i.in), weight_text(i.kernel),
                       i.state);
  }
  std::string operator()(const DeltaRule& i) const {
    return fmt::format("{} = {}, a {}, b {}, {} heads of {}x{} ({} key heads), state {}", row_text(i.out),
                       row_text(i.in), row_text(i.a), row_text(i.b), i.value_heads, i.key_dim, i.value_dim,
                       i.key_heads, i.state);
  }
  std::string operator()(const GatedNorm& i) const {
    return fmt::format("{} = {}, gate {}, {}", row_text(i.out), row_text(i.in), row_text(i.gate),
                       weight_text(i.weight));
  }
  std::string operator()(const Swiglu& i) const { return pair(i.out, i.gate, i.up); }
  std::string operator()(const Geglu& i) const { return pair(i.out, i.gate, i.up); }
  std::string operator()(const Add& i) const { return pair(i.out, i.a, i.b); }
  std::string operator()(const Concat& i) const { return pair(i.out, i.a, i.b); }
  std::string operator()(const Tap& i) const { return fmt::format("{} = {}", i.name, row_text(i.in)); }
  std::string operator()(const Logits& i) const {
    return fmt::format("{} * {}{}", weight_text(i.head), row_text(i.in),
                       i.ids.empty() ? ""
                       : i.spare.count == 0
                           ? fmt::format(", {} ids", i.ids.size())
                           : fmt::format(", {} ids and {} spare", i.ids.size(), i.spare.count));
  }
  std::string operator()(const Select&) const { return "logits"; }

  static std::string pair(Row out, Row a, Row b) {
    return fmt::format("{} = {}, {}", row_text(out), row_text(a), row_text(b));
  }
};

struct BytesRead {
  std::int64_t operator()(const Embed& i) const {
    return i.table.rows > 0 ? i.table.bytes() / i.table.rows : 0;
  }
  std::int64_t operator()(const Norm& i) const { return i.weight.bytes(); }
  std::int64_t operator()(const Linear& i) const {
    std::int64_t bytes = 0;
    for (const Weight& weight : i.weights) bytes += weight.bytes();
    return bytes;
  }
  std::int64_t operator()(const Conv& i) const { return i.kernel.bytes(); }
  std::int64_t operator()(const Logits& i) const {
    if (i.ids.empty()) return i.head.bytes();
    return i.head.bytes() / i.head.rows * (static_cast<std::int64_t>(i.ids.size()) + i.spare.count);
  }
  template <class Other>
  std::int64_t operator()(const Other&) const {
    return 0;
  }
};

constexpr std::string_view kNames[] = {"embed", "input",      "norm",       "linear", "attend",
                                       "conv",  "delta_rule", "gated_norm", "swiglu", "geglu",
                                       "add",   "concat",     "tap",        "logits", "select"};
static_assert(std::size(kNames) == std::variant_size_v<Instruction>);

}  // namespace

std::int64_t Program::bytes_per_step() const {
  std::int64_t bytes = 0;
  for (const Instruction& instruction : instructions_) bytes += std::visit(BytesRead{}, instruction);
  return bytes;
}

std::string_view instruction_name(const Instruction& instruction) { return kNames[instruction.index()]; }

std::string to_text(const Program& program) {
  std::string text;
  int number = 0;
  if (program.most_bits() > 0) text += fmt::format("matrices in at most {} bits\n", program.most_bits());
  for (const Instruction& instruction : program.instructions()) {
    text += fmt::format("{:4}  {:<10}  {}\n", number++, instruction_name(instruction),
                        std::visit(Operands{}, instruction));
  }
  return text;
}

}  // namespace ft
