#include "backends/cuda/row_plan.h"

#include <algorithm>
#include <numeric>

#include "backends/cuda/device.h"
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

void RowPlan::find_sums(const Program& program) {
  const std::vector<Instruction>& list = program.instructions();
  sums_.assign(list.size(), nullptr);
  done_.assign(list.size(), false);
  readers_.assign(static_cast<std::size_t>(program.row_count()), 0);
  for (const Instruction& instruction : list) {
    for (const Row row : uses_of(instruction).reads) ++readers_[static_cast<std::size_t>(row.id)];
  }
  for (std::size_t i = 0; i + 1 < list.size(); ++i) {
    const auto* linear = std::get_if<Linear>(&list[i]);
    const auto* add = std::get_if<Add>(&list[i + 1]);
    if (linear == nullptr || add == nullptr || linear->outs.size() != 1) continue;
    const Row own = linear->outs[0];
    if (readers(own) != 1 || (add->a.id == own.id) == (add->b.id == own.id)) continue;
    sums_[i] = add;
    done_[i + 1] = true;
  }
}

RowPlan::RowPlan(const Program& program, int max_rows) {
  find_sums(program);
  places_.resize(static_cast<std::size_t>(program.row_count()));
  const std::vector<Instruction>& list = program.instructions();
  const int end = static_cast<int>(list.size());
  for (int i = 0; i < end; ++i) {
    if (done(i)) continue;
    const Uses uses = uses_of(list[static_cast<std::size_t>(i)]);
    std::vector<Row> writes = sum_of(i) != nullptr ? std::vector<Row>{sum_of(i)->out} : uses.writes;
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
    const int last = std::holds_alternative<Capture>(instruction) ? end : i + read_later(instruction);
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
