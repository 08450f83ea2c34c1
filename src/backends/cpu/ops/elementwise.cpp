#include <algorithm>
#include <cstring>

#include "backends/cpu/executable.h"
#include "backends/weight_rows.h"

namespace ft::cpu {
namespace {

/// Element by element over two matrices of one width; workers share the columns as in a linear.
class BinaryOp final : public Operation {
 public:
  BinaryOp(Row a, Row b, Row out, void (*Kernels::*kernel)(const float*, const float*, std::int64_t, float*),
           const BuildContext& context)
      : a_(context.matrix(a)), b_(context.matrix(b)), out_(context.matrix(out)), kernel_(kernel) {}
  void run(const Step& step, int worker, int workers) override {
    const Range range = partition(out_.width, kLanes, worker, workers);
    const Matrix a = step.of(a_, worker);
    const Matrix b = step.of(b_, worker);
    for (std::int64_t r = 0; r < step.rows; ++r) {
      (step.kernels->*kernel_)(a.row(r) + range.first, b.row(r) + range.first, range.last - range.first,
                               out_.row(r) + range.first);
    }
  }

 private:
  Matrix a_, b_, out_;
  void (*Kernels::*kernel_)(const float*, const float*, std::int64_t, float*);
};

class ConcatOp final : public Operation {
 public:
  ConcatOp(const Concat& op, const BuildContext& context)
      : a_(context.matrix(op.a)), b_(context.matrix(op.b)), out_(context.matrix(op.out)) {}
  void run(const Step& step, int worker, int workers) override {
    const Range range = step.small_batch ? Range{0, step.rows} : partition(step.rows, 1, worker, workers);
    const Matrix a = step.of(a_, worker);
    const Matrix b = step.of(b_, worker);
    const Matrix out = step.of(out_, worker);
    for (std::int64_t r = range.first; r < range.last; ++r) {
      std::memcpy(out.row(r), a.row(r), static_cast<std::size_t>(a.width) * sizeof(float));
      std::memcpy(out.row(r) + a.width, b.row(r), static_cast<std::size_t>(b.width) * sizeof(float));
    }
  }

 private:
  Matrix a_, b_, out_;
};

/// Workers share the columns as in a linear.
class ScaleOp final : public Operation {
 public:
  ScaleOp(const Scale& op, const BuildContext& context)
      : in_(context.matrix(op.in)), out_(context.matrix(op.out)), factor_(op.factor) {}
  void run(const Step& step, int worker, int workers) override {
    const Range range = partition(out_.width, kLanes, worker, workers);
    const Matrix in = step.of(in_, worker);
    for (std::int64_t r = 0; r < step.rows; ++r) {
      for (std::int64_t i = range.first; i < range.last; ++i) out_.row(r)[i] = in.row(r)[i] * factor_;
    }
  }

 private:
  Matrix in_, out_;
  float factor_;
};

/// Workers share the columns as in a linear.
class SigmoidGateOp final : public Operation {
 public:
  SigmoidGateOp(const SigmoidGate& op, const BuildContext& context)
      : in_(context.matrix(op.in)), gate_(context.matrix(op.gate)), out_(context.matrix(op.out)) {}
  void run(const Step& step, int worker, int workers) override {
    const Range range = partition(out_.width, kLanes, worker, workers);
    const Matrix in = step.of(in_, worker);
    for (std::int64_t r = 0; r < step.rows; ++r) {
      step.kernels->sigmoid_gate(in.row(r) + range.first, step.of(gate_, worker).row(r)[0],
                                 range.last - range.first, out_.row(r) + range.first);
    }
  }

 private:
  Matrix in_, gate_, out_;
};

/// Workers share the columns as in a linear.
class GeluOp final : public Operation {
 public:
  GeluOp(const Gelu& op, const BuildContext& context)
      : in_(context.matrix(op.in)), out_(context.matrix(op.out)), exact_(op.exact) {}
  void run(const Step& step, int worker, int workers) override {
    const Range range = partition(out_.width, kLanes, worker, workers);
    const Matrix in = step.of(in_, worker);
    for (std::int64_t r = 0; r < step.rows; ++r) {
      step.kernels->gelu(in.row(r) + range.first, range.last - range.first, exact_,
                         out_.row(r) + range.first);
    }
  }

 private:
  Matrix in_, out_;
  bool exact_;
};

/// Workers share the columns as in a linear.
class BiasOp final : public Operation {
 public:
  BiasOp(const Bias& op, const BuildContext& context)
      : in_(context.matrix(op.in)),
        out_(context.matrix(op.out)),
        bias_(static_cast<std::size_t>(op.in.width)) {
    read_rows(op.bias, 0, 1, bias_.data());
  }
  void run(const Step& step, int worker, int workers) override {
    const Range range = partition(out_.width, kLanes, worker, workers);
    const Matrix in = step.of(in_, worker);
    for (std::int64_t r = 0; r < step.rows; ++r) {
      step.kernels->add(in.row(r) + range.first, bias_.data() + range.first, range.last - range.first,
                        out_.row(r) + range.first);
    }
  }

 private:
  Matrix in_, out_;
  std::vector<float> bias_;
};

class SliceOp final : public Operation {
 public:
  SliceOp(const Slice& op, const BuildContext& context)
      : in_(context.matrix(op.in)), out_(context.matrix(op.out)), first_(op.first) {}
  void run(const Step& step, int worker, int workers) override {
    const Range range = step.small_batch ? Range{0, step.rows} : partition(step.rows, 1, worker, workers);
    const Matrix in = step.of(in_, worker);
    const Matrix out = step.of(out_, worker);
    for (std::int64_t r = range.first; r < range.last; ++r)
      std::memcpy(out.row(r), in.row(r) + first_, static_cast<std::size_t>(out.width) * sizeof(float));
  }

 private:
  Matrix in_, out_;
  int first_;
};

}  // namespace

std::unique_ptr<Operation> make(const Swiglu& op, const BuildContext& context) {
  return std::make_unique<BinaryOp>(op.gate, op.up, op.out, &Kernels::swiglu, context);
}
std::unique_ptr<Operation> make(const Geglu& op, const BuildContext& context) {
  return std::make_unique<BinaryOp>(op.gate, op.up, op.out, &Kernels::geglu, context);
}
std::unique_ptr<Operation> make(const Add& op, const BuildContext& context) {
  return std::make_unique<BinaryOp>(op.a, op.b, op.out, &Kernels::add, context);
}
std::unique_ptr<Operation> make(const SigmoidGate& op, const BuildContext& context) {
  return std::make_unique<SigmoidGateOp>(op, context);
}
std::unique_ptr<Operation> make(const Gelu& op, const BuildContext& context) {
  return std::make_unique<GeluOp>(op, context);
}
std::unique_ptr<Operation> make(const Bias& op, const BuildContext& context) {
  return std::make_unique<BiasOp>(op, context);
}
std::unique_ptr<Operation> make(const Scale& op, const BuildContext& context) {
  return std::make_unique<ScaleOp>(op, context);
}
std::unique_ptr<Operation> make(const Concat& op, const BuildContext& context) {
  return std::make_unique<ConcatOp>(op, context);
}
std::unique_ptr<Operation> make(const Slice& op, const BuildContext& context) {
  return std::make_unique<SliceOp>(op, context);
}

}  // namespace ft::cpu
