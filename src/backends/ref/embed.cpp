#include <algorithm>

#include "backends/host_rows.h"
#include "backends/ref/executable.h"

namespace ft::ref {

void execute(const Step& step, const Embed& op, Weights weights) {
  const Decoded& table = weights.take(op.table);
  for (int r = 0; r < step.rows; ++r) {
    const RowPlaces& given = step.args->embeddings;
    if (given.store != nullptr && given.places[static_cast<std::size_t>(r)] >= 0) {
      std::copy_n(host_row(given, r), table.cols, step.row(op.out, r));
      continue;
    }
    const std::int64_t token = step.tokens[static_cast<std::size_t>(r)];
    std::copy_n(table.values.data() + token * table.cols, table.cols, step.row(op.out, r));
  }
}

void execute(const Step& step, const Input& op, Weights /*weights*/) {
  const RowPlaces from = step.args->input(op.number);
  for (int r = 0; r < step.rows; ++r) std::copy_n(host_row(from, r), op.width, step.row(op.out, r));
}

void execute(const Step& step, const Capture& op, Weights /*weights*/) {
  capture_rows(step.args->capture, op.number, step.row(op.in, 0));
}

}  // namespace ft::ref
