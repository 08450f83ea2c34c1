#include "backends/cpu/plan.h"

#include <algorithm>

#include "backends/cpu/memory.h"

namespace ft::cpu {
namespace {

/// The rows that an instruction reads and writes.
struct Operands {
  std::vector<Row> reads, writes;

  void operator()(const Embed& i) { writes = {i.out}; }
  void operator()(const Input& i) { writes = {i.out}; }
  void operator()(const Norm& i) { reads = {i.in}, writes = {i.out}; }
  void operator()(const Linear& i) { reads = {i.in}, writes = i.outs; }
  void operator()(const Attend& i) { reads = {i.q, i.k, i.v}, writes = {i.out}; }
  void operator()(const Conv& i) { reads = {i.in}, writes = {i.out}; }
  void operator()(const DeltaRule& i) { reads = {i.in, i.a, i.b}, writes = {i.out}; }
  void operator()(const GatedNorm& i) { reads = {i.in, i.gate}, writes = {i.out}; }
  void operator()(const Swiglu& i) { reads = {i.gate, i.up}, writes = {i.out}; }
  void operator()(const Geglu& i) { reads = {i.gate, i.up}, writes = {i.out}; }
  void operator()(const Add& i) { reads = {i.a, i.b}, writes = {i.out}; }
  void operator()(const Concat& i) { reads = {i.a, i.b}, writes = {i.out}; }
  void operator()(const Tap& i) { reads = {i.in}; }
  void operator()(const Logits& i) { reads = {i.in}; }
  void operator()(const Select&) {}
};

}  // namespace

Plan::Plan(const Program& program, const CompileOptions& options,
           const std::vector<std::int64_t>& scratch_bytes)
    : rows_(static_cast<std::size_t>(program.row_count())), scratch_(program.instructions().size()) {
  const int end = static_cast<int>(program.instructions().size());
  std::vector<Span*> spans;
  for (int at = 0; at < end; ++at) {
    const Instruction& instruction = program.instructions()[static_cast<std::size_t>(at)];
    Operands operands;
    std::visit(operands, instruction);
    for (const Row row : operands.writes) {
      Span& span = rows_[static_cast<std::size_t>(row.id)];
      const std::int64_t floats = static_cast<std::int64_t>(row.width) * options.max_rows;
      span = {round_up(floats * static_cast<std::int64_t>(sizeof(float)), 64), at, at, 0};
      spans.push_back(&span);
    }
    for (const Row row : operands.reads) rows_[static_cast<std::size_t>(row.id)].last = at;
    Span& scratch = scratch_[static_cast<std::size_t>(at)];
    scratch = {round_up(scratch_bytes[static_cast<std::size_t>(at)], 64), at, at, 0};
    if (scratch.bytes > 0) spans.push_back(&scratch);
  }
  for (Span* span : spans) span->last = std::max(span->last, span->first);
  // What the caller reads after the step lives on.
  for (int at = 0; at < end; ++at) {
    if (const auto* tap = std::get_if<Tap>(&program.instructions()[static_cast<std::size_t>(at)])) {
      rows_[static_cast<std::size_t>(tap->in.id)].last = end;
    }
  }
  place(spans);
}

// First fit in order of first use: simple, and near the sum of what lives at once.
void Plan::place(std::vector<Span*>& spans) {
  std::vector<Span*> placed;  // by offset
  for (Span* span : spans) {
    std::int64_t offset = 0;
    for (const Span* other : placed) {
      if (other->last < span->first || other->first > span->last) continue;
      if (offset + span->bytes <= other->offset) break;
      offset = std::max(offset, other->offset + other->bytes);
    }
    span->offset = offset;
    const auto where = std::upper_bound(placed.begin(), placed.end(), span,
                                        [](const Span* a, const Span* b) { return a->offset < b->offset; });
    placed.insert(where, span);
    bytes_ = std::max(bytes_, offset + span->bytes);
  }
}

}  // namespace ft::cpu
