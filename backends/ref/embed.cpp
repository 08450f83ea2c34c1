#include <algorithm>

#include "backends/ref/executable.h"

namespace ft::ref {

void execute(const Step& step, const Embed& op, Weights weights) {
  const Decoded& table = weights.take(op.table);
  for (int r = 0; r < step.rows; ++r) {
    const std::int64_t token = step.tokens[static_cast<std::size_t>(r)];
    std::copy_n(table.values.data() + token * table.cols, table.cols, step.row(op.out, r));
  }
}

void execute(const Step& step, const Input& op, Weights /*weights*/) {
  std::copy_n(step.args->hidden.data(),
              static_cast<std::size_t>(step.rows) * static_cast<std::size_t>(op.width), step.row(op.out, 0));
}

void execute(const Step& step, const Tap& op, Weights /*weights*/) {
  step.outcome->result.tap = {step.row(op.in, 0),
                              static_cast<std::size_t>(step.rows) * static_cast<std::size_t>(op.in.width)};
}

}  // namespace ft::ref
