#include <algorithm>

#include "backends/ref/executable.h"

namespace ft::ref {

void execute(const Step& step, const LocalConv& op, Weights weights) {
  const Decoded& base = weights.take(op.base);
  const int width = op.in.width, size = width / op.groups;
  int first_row = 0;
  for (const Segment& segment : step.args->segments) {
    for (int j = 0; j < segment.rows; ++j) {
      const float* coefficients = step.row(op.coefficients, first_row + j);
      float* out = step.row(op.out, first_row + j);
      std::fill_n(out, width, 0.0F);
      for (int tap = 0; tap < std::min(op.taps, j + 1); ++tap) {
        const int of_side = op.side * op.taps + tap;
        const float* in = step.row(op.in, first_row + j - tap);
        for (int c = 0; c < width; ++c) {
          const float kernel = base.values[static_cast<std::size_t>(of_side * width + c)] +
                               coefficients[of_side * op.groups + c / size];
          out[c] += kernel * in[c];
        }
      }
    }
    first_row += segment.rows;
  }
}

}  // namespace ft::ref
