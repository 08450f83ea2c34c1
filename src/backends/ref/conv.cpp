#include <algorithm>

#include "backends/ref/executable.h"

namespace ft::ref {

void execute(const Step& step, const CausalConv1d& op, Weights weights) {
  const Decoded& kernel = weights.take(op.kernel);
  const int width = op.in.width;
  int first_row = 0;
  for (const Segment& segment : step.args->segments) {
    for (int r = 0; r < segment.rows; ++r) {
      const std::int64_t position = segment.position + r;
      std::copy_n(step.row(op.in, first_row + r), width,
                  step.state->conv_row(op.state, segment.sequence.slot, position));
      float* out = step.row(op.out, first_row + r);
      std::fill_n(out, width, 0.0F);
      for (int tap = 0; tap < op.kernel_width; ++tap) {
        const std::int64_t source = position - (op.kernel_width - 1) + tap;
        if (source < 0) continue;
        const float* past = step.state->conv_row(op.state, segment.sequence.slot, source);
        for (int c = 0; c < width; ++c) {
          out[c] += kernel.values[static_cast<std::size_t>(c * op.kernel_width + tap)] * past[c];
        }
      }
      for (int c = 0; c < width; ++c) out[c] = silu(out[c]);
    }
    first_row += segment.rows;
  }
}

}  // namespace ft::ref
