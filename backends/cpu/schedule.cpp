#include "backends/cpu/schedule.h"

#include <algorithm>

namespace ft::cpu {
namespace {

constexpr Split kWhole{Split::Kind::kWhole, 0};
constexpr Split kColumns{Split::Kind::kColumns, 0};
constexpr Split kOwn{Split::Kind::kOwn, 0};
constexpr Split heads_of(int heads) { return {Split::Kind::kHeads, heads}; }

/// True if a worker that reads with this split must wait for those that wrote with the other.
constexpr bool waits(Split write, Split read) {
  if (write.kind == Split::Kind::kOwn || read.kind == Split::Kind::kOwn) return false;
  return write.kind == Split::Kind::kWhole || write != read;
}

struct Visitor {
  int logits;
  int workers;
  Operands out;

  void read(Row row, Split split = kWhole) { out.reads.push_back({row, split}); }
  void write(Row row, Split split = kWhole) { out.writes.push_back({row, split}); }
  template <class Binary>
  void by_columns(const Binary& i, Row a, Row b) {
    read(a, kColumns), read(b, kColumns), write(i.out, kColumns);
  }

  void operator()(const Embed& i) { write(i.out); }
  void operator()(const Input& i) { write(i.out); }
  void operator()(const Norm& i) { read(i.in), write(i.out, kOwn); }
  void operator()(const Linear& i) {
    read(i.in);
    for (const Row row : i.outs) write(row, kColumns);
  }
  void operator()(const Attend& i) { read(i.q), read(i.k), read(i.v), write(i.out); }
  void operator()(const Conv& i) { read(i.in, kColumns), write(i.out, kColumns); }
  void operator()(const DeltaRule& i) {
    read(i.in), read(i.a), read(i.b);
    write(i.out, heads_divide(i.value_heads, workers) ? heads_of(i.value_heads) : kWhole);
  }
  void operator()(const GatedNorm& i) {
    const Split split = heads_of(static_cast<int>(i.in.width / i.weight.cols));
    read(i.in, split), read(i.gate, split), write(i.out, split);
  }
  void operator()(const Swiglu& i) { by_columns(i, i.gate, i.up); }
  void operator()(const Geglu& i) { by_columns(i, i.gate, i.up); }
  void operator()(const Add& i) { by_columns(i, i.a, i.b); }
  void operator()(const Concat& i) { read(i.a), read(i.b), write(i.out, kOwn); }
  void operator()(const Tap& i) { read(i.in, kOwn); }  // the caller reads it after the step
  void operator()(const Logits& i) { read(i.in), write({logits, 0}, kColumns); }
  void operator()(const Select&) { read({logits, 0}); }
};

}  // namespace

Operands operands(const Program& program, const Instruction& instruction, int workers) {
  Visitor visitor{program.row_count(), workers, {}};
  std::visit(visitor, instruction);
  return std::move(visitor.out);
}

Schedule::Schedule(const Program& program, int workers)
    : splits_(static_cast<std::size_t>(program.row_count()) + 1) {
  std::vector<int> written(splits_.size(), -1);  // the phase that wrote each row
  int group = 0;
  for (const Instruction& instruction : program.instructions()) {
    const Operands touched = operands(program, instruction, workers);
    // The angles of the step's positions are written before the first instruction.
    bool meet = group == 0 && std::holds_alternative<Attend>(instruction);
    for (const Operands::Operand& read : touched.reads) {
      const auto id = static_cast<std::size_t>(read.row.id);
      if (written[id] == group && waits(splits_[id], read.split)) meet = true;
    }
    group += meet ? 1 : 0;
    groups_.push_back(group);
    for (const Operands::Operand& write : touched.writes) {
      const auto id = static_cast<std::size_t>(write.row.id);
      written[id] = group;
      splits_[id] = write.split;
    }
  }
}

}  // namespace ft::cpu
