#include "backends/cpu/executable.h"
#include "backends/cpu/ops/rows_of_others.h"
#include "backends/weight_rows.h"

namespace ft::cpu {
namespace {

std::vector<float> decode(const Weight& weight) {
  std::vector<float> values(static_cast<std::size_t>(weight.rows * weight.cols));
  if (!weight.empty()) read_rows(weight, 0, weight.rows, values.data());
  return values;
}

/// Calls each(row) for the worker's rows of a norm: all rows of a small batch.
template <class Each>
void for_rows(const Step& step, const Matrix& in, int worker, int workers, const Each& each) {
  if (step.small_batch && workers > 1) {
    const auto row = [&](std::int64_t r) { return in.row(r); };
    return for_rows_in_turn(step.rows, in.width, worker, row, each);
  }
  const Range range = step.small_batch ? Range{0, step.rows} : partition(step.rows, 1, worker, workers);
  for (std::int64_t r = range.first; r < range.last; ++r) each(r);
}

class NormOp final : public Operation {
 public:
  NormOp(const Norm& op, const BuildContext& context)
      : in_(context.matrix(op.in)), out_(context.matrix(op.out)), weight_(decode(op.weight)), eps_(op.eps) {
    if (op.weight.empty()) weight_.assign(static_cast<std::size_t>(op.in.width), 1);
  }

  void run(const Step& step, int worker, int workers) override {
    const Matrix in = step.of(in_, worker);
    const Matrix out = step.of(out_, worker);
    for_rows(step, in, worker, workers, [&](std::int64_t r) {
      step.kernels->rms_norm(in.row(r), weight_.data(), static_cast<int>(in.width), eps_, out.row(r));
    });
  }

 private:
  Matrix in_, out_;
  std::vector<float> weight_;
  float eps_;
};

class LayerNormOp final : public Operation {
 public:
  LayerNormOp(const LayerNorm& op, const BuildContext& context)
      : in_(context.matrix(op.in)),
        out_(context.matrix(op.out)),
        weight_(decode(op.weight)),
        bias_(decode(op.bias)),
        eps_(op.eps) {}

  void run(const Step& step, int worker, int workers) override {
    const Matrix in = step.of(in_, worker);
    const Matrix out = step.of(out_, worker);
    for_rows(step, in, worker, workers, [&](std::int64_t r) {
      step.kernels->layer_norm(in.row(r), weight_.data(), bias_.data(), static_cast<int>(in.width), eps_,
                               out.row(r));
    });
  }

 private:
  Matrix in_, out_;
  std::vector<float> weight_, bias_;
  float eps_;
};

class GatedNormOp final : public Operation {
 public:
  GatedNormOp(const GatedNorm& op, const BuildContext& context)
      : in_(context.matrix(op.in)),
        gate_(context.matrix(op.gate)),
        out_(context.matrix(op.out)),
        weight_(decode(op.weight)),
        eps_(op.eps) {}

  void run(const Step& step, int worker, int workers) override {
    const auto head = static_cast<std::int64_t>(weight_.size());
    const std::int64_t heads = in_.width / head;
    const Range range = partition(heads, 1, worker, workers);
    const Matrix in = step.of(in_, worker), gate = step.of(gate_, worker);
    for (std::int64_t r = 0; r < step.rows; ++r) {
      for (std::int64_t h = r * heads + range.first; h < r * heads + range.last; ++h) {
        step.kernels->gated_norm(in.data + h * head, weight_.data(), gate.data + h * head,
                                 static_cast<int>(head), eps_, out_.data + h * head);
      }
    }
  }

 private:
  Matrix in_, gate_, out_;
  std::vector<float> weight_;
  float eps_;
};

}  // namespace

std::unique_ptr<Operation> make(const Norm& op, const BuildContext& context) {
  return std::make_unique<NormOp>(op, context);
}

std::unique_ptr<Operation> make(const LayerNorm& op, const BuildContext& context) {
  return std::make_unique<LayerNormOp>(op, context);
}

std::unique_ptr<Operation> make(const GatedNorm& op, const BuildContext& context) {
  return std::make_unique<GatedNormOp>(op, context);
}

}  // namespace ft::cpu
