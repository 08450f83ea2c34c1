#include <algorithm>
#include <cstring>

#include "backends/cpu/executable.h"
#include "backends/weight_rows.h"

namespace ft::cpu {
namespace {

constexpr int kMaxTaps = kRing - kMaxTapeRows - 1;

/// Workers own channels, so a worker reads from the ring only rows that it wrote itself.
class ConvOp final : public Operation {
 public:
  ConvOp(const CausalConv1d& op, const BuildContext& context)
      : in_(context.matrix(op.in)),
        out_(context.matrix(op.out)),
        kernel_width_(op.kernel_width),
        state_(op.state) {
    const std::int64_t width = in_.width;
    std::vector<float> stored(static_cast<std::size_t>(width * kernel_width_));
    read_rows(op.kernel, 0, width, stored.data());
    kernel_.resize(stored.size());
    for (std::int64_t c = 0; c < width; ++c) {
      for (int tap = 0; tap < kernel_width_; ++tap) {
        kernel_[static_cast<std::size_t>(tap * width + c)] =
            stored[static_cast<std::size_t>(c * kernel_width_ + tap)];
      }
    }
  }

  void run(const Step& step, int worker, int workers) override {
    const Range range = partition(in_.width, kLanes, worker, workers);
    const auto count = static_cast<int>(range.last - range.first);
    if (count == 0) return;
    const Matrix in = step.of(in_, worker);
    std::int64_t first_row = 0;
    for (const Segment& segment : step.args->segments) {
      for (int r = 0; r < segment.rows; ++r) {
        const float* sources[kMaxTaps];
        for (int tap = 0; tap < kernel_width_; ++tap) {
          sources[tap] = source(step, in, segment, first_row, r - (kernel_width_ - 1) + tap, range.first);
        }
        step.kernels->conv(sources, kernel_.data() + range.first, in_.width, kernel_width_, count,
                           out_.row(first_row + r) + range.first);
      }
      // This must come last: the last rows of a long segment overwrite the predecessors of its first row.
      for (int r = std::max(0, segment.rows - kRing); r < segment.rows; ++r) {
        std::memcpy(step.state->conv_row(state_, segment.sequence.slot, segment.position + r) + range.first,
                    in.row(first_row + r) + range.first, static_cast<std::size_t>(count) * sizeof(float));
      }
      first_row += segment.rows;
    }
  }

 private:
  /// The input `offset` rows after the segment's first, from channel `channel` on; null before position 0.
  const float* source(const Step& step, const Matrix& in, const Segment& segment, std::int64_t first_row,
                      int offset, std::int64_t channel) const {
    if (offset >= 0) return in.row(first_row + offset) + channel;
    const std::int64_t position = segment.position + offset;
    if (position < 0) return nullptr;
    return step.state->conv_row(state_, segment.sequence.slot, position) + channel;
  }

  Matrix in_, out_;
  std::vector<float> kernel_;  // [kernel width, channels]
  int kernel_width_, state_;
};

}  // namespace

std::unique_ptr<Operation> make(const CausalConv1d& op, const BuildContext& context) {
  return std::make_unique<ConvOp>(op, context);
}

}  // namespace ft::cpu
