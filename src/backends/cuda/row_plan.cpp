#include "backends/cuda/row_plan.h"

#include <algorithm>
#include <numeric>

#include "backends/cuda/device.h"
#include "backends/cuda/weights.h"
#include "base/assert.h"

namespace ft::cuda {
namespace {

struct FindUses final : Describer {
  void reads(Row row, int, Granularity) override { uses.reads.push_back(row); }
  void writes(Row row, int, Granularity) override { uses.writes.push_back(row); }
  Uses uses;
};

/// How much later another instruction may read its rows in its place: the linear after a norm
/// (FusedProducer), the gated norm after a convolution and a delta rule (DeltaStepArgs), the last one of a
/// mixture.
int read_later(const Instruction& instruction) {
  if (std::holds_alternative<Norm>(instruction) || std::holds_alternative<DeltaRule>(instruction)) return 1;
  if (std::holds_alternative<TopKRouter>(instruction) || std::holds_alternative<MoeMlp>(instruction) ||
      std::holds_alternative<SigmoidGate>(instruction))
    return kMixtureSpan;
  return std::holds_alternative<CausalConv1d>(instruction) ? 2 : 0;
}

}  // namespace

Uses uses_of(const Instruction& instruction) {
  FindUses find;
  describe(instruction, find);
  return find.uses;
}

Row other_of(const Add& sum, Row one) { return sum.a.id == one.id ? sum.b : sum.a; }

void RowPlan::count_readers(const Program& program) {
  readers_.assign(static_cast<std::size_t>(program.row_count()), 0);
  for (const Instruction& instruction : program.instructions()) {
    for (const Row row : uses_of(instruction).reads) ++readers_[static_cast<std::size_t>(row.id)];
  }
}

/// A kernel of plain weights adds biases, if each output has one right after the linear.
void RowPlan::find_biases(const Program& program) {
  const std::vector<Instruction>& list = program.instructions();
  biases_.assign(list.size(), {});
  for (std::size_t i = 0; i < list.size(); ++i) {
    const auto* linear = std::get_if<Linear>(&list[i]);
    if (linear == nullptr || i + linear->outs.size() >= list.size()) continue;
    std::vector<const Bias*> biases;
    for (std::size_t j = 0; j < linear->outs.size(); ++j) {
      const auto* bias = std::get_if<Bias>(&list[i + 1 + j]);
      const auto kind = kind_of(requantised_as(linear->weights[j], program.max_weight_bits()));
      const auto first = kind_of(requantised_as(linear->weights[0], program.max_weight_bits()));
      if (bias == nullptr || bias->in.id != linear->outs[j].id || readers(bias->in) != 1) break;
      if (!kind.ok() || !first.ok() || !(*kind == *first) || kind->bits != 0) break;
      biases.push_back(bias);
    }
    if (biases.size() != linear->outs.size()) continue;
    std::fill_n(done_.begin() + static_cast<std::ptrdiff_t>(i) + 1, biases.size(), true);
    biases_[i] = std::move(biases);
  }
}

void RowPlan::find_sums(const Program& program) {
  const std::vector<Instruction>& list = program.instructions();
  sums_.assign(list.size(), nullptr);
  for (std::size_t i = 0; i < list.size(); ++i) {
    const auto* linear = std::get_if<Linear>(&list[i]);
    const auto* experts = std::get_if<MoeMlp>(&list[i]);
    const std::size_t next = i + 1 + biases_[i].size();
    const auto* add = next < list.size() ? std::get_if<Add>(&list[next]) : nullptr;
    if ((experts == nullptr && linear == nullptr) || add == nullptr) continue;
    if (linear != nullptr && linear->outs.size() != 1) continue;
    const Row own = experts != nullptr   ? experts->out
                    : biases_[i].empty() ? linear->outs[0]
                                         : biases_[i][0]->out;
    if (readers(own) != 1 || (add->a.id == own.id) == (add->b.id == own.id)) continue;
    sums_[i] = add;
    done_[next] = true;
  }
}

void RowPlan::find_chains(const Program& program) {
  const std::vector<Instruction>& list = program.instructions();
  chains_.assign(list.size(), {});
  done_by_.resize(list.size());
  std::iota(done_by_.begin(), done_by_.end(), 0);
  const auto at = [&]<class Op>(std::size_t i, const Op*) {
    return i < list.size() ? std::get_if<Op>(&list[i]) : static_cast<const Op*>(nullptr);
  };
  const auto adds = [&](const Add* add, Row row) {
    return add != nullptr && (add->a.id == row.id) != (add->b.id == row.id);
  };
  for (std::size_t first = 0; first < list.size(); ++first) {
    NormChain chain;
    chain.norm = at(first, chain.norm);
    if (chain.norm == nullptr || chain.norm->out.width > kNormChainWidth) continue;
    Row row = chain.norm->out;
    std::size_t last = first;
    if (const Add* add = at(last + 1, chain.sum); adds(add, row) && readers(row) == 1)
      chain.sum = add, row = add->out, ++last;
    if (const Scale* scale = at(last + 1, chain.scale);
        scale != nullptr && scale->in.id == row.id && readers(row) == 1)
      chain.scale = scale, row = scale->out, ++last;
    if (last == first) continue;
    const Norm* second = at(last + 1, chain.second);
    if (second != nullptr && second->in.id == row.id) {
      const Scale* scale = at(last + 2, chain.scale);
      const bool begins_another =
          adds(at(last + 2, chain.sum), second->out) || (scale != nullptr && scale->in.id == second->out.id);
      if (!begins_another) chain.second = second, ++last;
    }
    std::fill(done_.begin() + static_cast<std::ptrdiff_t>(first),
              done_.begin() + static_cast<std::ptrdiff_t>(last), true);
    std::fill(done_by_.begin() + static_cast<std::ptrdiff_t>(first),
              done_by_.begin() + static_cast<std::ptrdiff_t>(last), static_cast<int>(last));
    chains_[last] = chain;
    first = last;
  }
}

const NormChain* RowPlan::chain_at(int index) const {
  const NormChain& chain = chains_[static_cast<std::size_t>(index)];
  return chain.norm != nullptr ? &chain : nullptr;
}

/// The rows that lie side by side in the matrix of an instruction.
std::vector<Row> RowPlan::writes_of(const Program& program, int index) const {
  if (sum_of(index) != nullptr) return {sum_of(index)->out};
  if (const NormChain* const chain = chain_at(index)) {
    if (chain->second == nullptr) return {chain->sum_row()};
    return {chain->sum_row(), chain->second->out};
  }
  std::vector<Row> biased;
  for (const Bias* bias : biases_of(index)) biased.push_back(bias->out);
  if (!biased.empty()) return biased;
  return uses_of(program.instructions()[static_cast<std::size_t>(index)]).writes;
}

RowPlan::RowPlan(const Program& program, int max_rows) {
  done_.assign(program.instructions().size(), false);
  count_readers(program);
  find_biases(program);
  find_sums(program);
  find_chains(program);
  places_.resize(static_cast<std::size_t>(program.row_count()));
  const std::vector<Instruction>& list = program.instructions();
  const int end = static_cast<int>(list.size());
  for (int i = 0; i < end; ++i) {
    if (done(i)) continue;
    const std::vector<Row> writes = writes_of(program, i);
    if (writes.empty()) continue;
    Matrix matrix;
    matrix.first = matrix.last = i;
    int stride = 0;
    for (const Row row : writes) stride += static_cast<int>(round_up(row.width, kTileOutputs));
    int column = 0;
    for (const Row row : writes) {
      places_[static_cast<std::size_t>(row.id)] = {static_cast<int>(matrices_.size()), column, stride};
      column += static_cast<int>(round_up(row.width, kTileOutputs));
    }
    matrix.bytes = round_up(std::int64_t{stride} * max_rows * 4, 256);
    matrices_.push_back(matrix);
  }
  for (int i = 0; i < end; ++i) {
    const Instruction& instruction = list[static_cast<std::size_t>(i)];
    const int done_at = done_by_[static_cast<std::size_t>(i)];
    const int last = std::holds_alternative<Capture>(instruction) ? end : done_at + read_later(instruction);
    for (const Row row : uses_of(instruction).reads) {
      const int matrix = places_[static_cast<std::size_t>(row.id)].matrix;
      if (matrix < 0) continue;
      int& until = matrices_[static_cast<std::size_t>(matrix)].last;
      until = std::max(last, until);
    }
  }
  place(matrices_);
}

/// First fit, in the order in which they are written.
void RowPlan::place(std::vector<Matrix>& matrices) {
  std::vector<const Matrix*> placed;  // by offset
  for (Matrix& matrix : matrices) {
    std::int64_t at = 0;
    for (const Matrix* other : placed) {
      if (other->last < matrix.first || other->first > matrix.last) continue;
      if (at + matrix.bytes <= other->offset) break;
      at = std::max(at, other->offset + other->bytes);
    }
    matrix.offset = at;
    bytes_ = std::max(bytes_, at + matrix.bytes);
    placed.insert(std::ranges::upper_bound(placed, at, {}, &Matrix::offset), &matrix);
  }
}

View RowPlan::view(Row row, std::byte* arena) const {
  const Place& place = places_[static_cast<std::size_t>(row.id)];
  FT_ASSERT(place.matrix >= 0);
  std::byte* const base = arena + matrices_[static_cast<std::size_t>(place.matrix)].offset;
  return {reinterpret_cast<float*>(base) + place.column, place.stride, row.width};
}

}  // namespace ft::cuda
