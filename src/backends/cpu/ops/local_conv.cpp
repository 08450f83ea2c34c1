#include <algorithm>

#include "backends/cpu/executable.h"
#include "backends/weight_rows.h"

namespace ft::cpu {
namespace {

/// Workers own channels, which need the same channels of the rows before.
class LocalConvOp final : public Operation {
 public:
  LocalConvOp(const LocalConv& op, const BuildContext& context)
      : op_(op),
        in_(context.matrix(op.in)),
        coefficients_(context.matrix(op.coefficients)),
        out_(context.matrix(op.out)),
        base_(static_cast<std::size_t>(op.base.rows * op.base.cols)) {
    read_rows(op.base, 0, op.base.rows, base_.data());
  }

  void run(const Step& step, int worker, int workers) override {
    const Range range = partition(out_.width, kLanes, worker, workers);
    const Matrix in = step.of(in_, worker), coefficients = step.of(coefficients_, worker);
    std::int64_t first_row = 0;
    for (const Segment& segment : step.args->segments) {
      for (int j = 0; j < segment.rows; ++j) {
        float* out = out_.row(first_row + j);
        std::fill(out + range.first, out + range.last, 0.0F);
        for (int tap = 0; tap < std::min(op_.taps, j + 1); ++tap) {
          const std::int64_t of_side = std::int64_t{op_.side} * op_.taps + tap;
          add(range, base_.data() + of_side * out_.width,
              coefficients.row(first_row + j) + of_side * op_.groups, in.row(first_row + j - tap), out);
        }
      }
      first_row += segment.rows;
    }
  }

 private:
  void add(Range range, const float* base, const float* coefficients, const float* in, float* out) const {
    const std::int64_t size = out_.width / op_.groups;
    for (std::int64_t c = range.first; c < range.last;) {
      const std::int64_t group = c / size, end = std::min(range.last, (group + 1) * size);
      const float own = coefficients[group];
      for (; c < end; ++c) out[c] += (base[c] + own) * in[c];
    }
  }

  LocalConv op_;
  Matrix in_, coefficients_, out_;
  std::vector<float> base_;  // [2 * taps, width]
};

}  // namespace

std::unique_ptr<Operation> make(const LocalConv& op, const BuildContext& context) {
  return std::make_unique<LocalConvOp>(op, context);
}

}  // namespace ft::cpu
