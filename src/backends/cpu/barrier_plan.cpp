#include "backends/cpu/barrier_plan.h"

#include <algorithm>
#include <map>
#include <set>

namespace ft::cpu {
namespace {

constexpr Split kWhole{Split::Kind::kWhole, 0};
constexpr Split kColumns{Split::Kind::kColumns, 0};
constexpr Split kReplicated{Split::Kind::kReplicated, 0};
constexpr Split heads_of(int heads) { return {Split::Kind::kHeads, heads}; }

/// True if a worker that reads with this split must wait for those that wrote with the other.
constexpr bool waits(Split write, Split read) {
  if (write.kind == Split::Kind::kReplicated || read.kind == Split::Kind::kReplicated) return false;
  return write.kind == Split::Kind::kWhole || write != read;
}

class Reader final : public Describer {
 public:
  Reader(int logits, bool recurrent, int workers)
      : logits_(logits), recurrent_(recurrent), workers_(workers) {}
  void reads(Row row, int, Granularity granularity) override {
    touched.reads.push_back({row, split(granularity)});
  }
  void writes(Row row, int, Granularity granularity) override {
    // If a recurrence cannot share its heads evenly, it shares the columns of heads instead.
    const bool uneven = recurrent_ && granularity.kind == Granularity::Kind::kHeads &&
                        !heads_divide(granularity.heads, workers_);
    touched.writes.push_back({row, uneven ? kWhole : split(granularity)});
  }
  void reads_logits() override { touched.reads.push_back({{logits_, 0}, kWhole}); }
  void writes_logits(std::int64_t) override { touched.writes.push_back({{logits_, 0}, kColumns}); }

  Operands touched;

 private:
  static Split split(Granularity granularity) {
    switch (granularity.kind) {
      case Granularity::Kind::kWhole:
        return kWhole;
      case Granularity::Kind::kColumns:
        return kColumns;
      case Granularity::Kind::kHeads:
        return heads_of(granularity.heads);
      case Granularity::Kind::kReplicated:
        return kReplicated;
    }
    return kWhole;
  }
  int logits_;
  bool recurrent_;
  int workers_;
};

}  // namespace

Operands operands(const Program& program, const Instruction& instruction, int workers) {
  Reader reader(program.row_count(), std::holds_alternative<DeltaRule>(instruction), workers);
  describe(instruction, reader);
  return std::move(reader.touched);
}

BarrierPlan::BarrierPlan(const Program& program, int workers)
    : plan_of_(static_cast<std::size_t>(workers) + 1),
      splits_(static_cast<std::size_t>(program.row_count()) + 1) {
  std::set<int> heads;  // of recurrences: only they depend on the number of workers
  for (const Instruction& instruction : program.instructions())
    if (const auto* op = std::get_if<DeltaRule>(&instruction)) heads.insert(op->value_heads);
  std::map<std::vector<bool>, std::size_t> plans;  // by which heads divide
  for (int count = 1; count <= workers; ++count) {
    std::vector<bool> divide;
    for (const int each : heads) divide.push_back(heads_divide(each, count));
    const auto [plan, is_new] = plans.emplace(std::move(divide), plans.size());
    if (is_new) add(program, count);
    plan_of_[static_cast<std::size_t>(count)] = plan->second;
  }
  find_fixed_phases();
}

void BarrierPlan::find_fixed_phases() {
  const std::size_t count = phases_.front().size();
  for (std::size_t i = 0; i < count; ++i) {
    const bool meet = i > 0 && std::ranges::all_of(phases_, [i](const std::vector<int>& phases) {
                        return phases[i] != phases[i - 1];
                      });
    fixed_phases_.push_back(i == 0 ? 0 : fixed_phases_.back() + (meet ? 1 : 0));
  }
}

void BarrierPlan::add(const Program& program, int workers) {
  std::vector<int>& phases = phases_.emplace_back();
  std::vector<int> written(splits_.size(), -1);  // the phase that wrote each row
  int phase = 0;
  for (const Instruction& instruction : program.instructions()) {
    const Operands touched = operands(program, instruction, workers);
    // The angles of the step's positions are written before the first instruction.
    bool meet = phase == 0 && std::holds_alternative<Attention>(instruction);
    for (const Operands::Operand& read : touched.reads) {
      const auto id = static_cast<std::size_t>(read.row.id);
      if (written[id] == phase && waits(splits_[id], read.split)) meet = true;
    }
    phase += meet ? 1 : 0;
    phases.push_back(phase);
    for (const Operands::Operand& write : touched.writes) {
      const auto id = static_cast<std::size_t>(write.row.id);
      written[id] = phase;
      splits_[id] = write.split;
    }
  }
}

}  // namespace ft::cpu
