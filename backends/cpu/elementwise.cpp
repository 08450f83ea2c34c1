#include <algorithm>
#include <cstring>

#include "backends/cpu/executable.h"
#include "backends/host_rows.h"
#include "backends/weight_rows.h"

namespace ft::cpu {
namespace {

class EmbedOp final : public Operation {
 public:
  EmbedOp(const Embed& op, const Parts& parts) : table_(op.table), out_(parts.matrix(op.out)) {}
  void run(const Step& step, int worker, int workers) override {
    const Share share = share_of(step.rows, 1, worker, workers);
    for (std::int64_t r = share.first; r < share.last; ++r) read_rows(table_, step.tokens[r], 1, out_.row(r));
  }

 private:
  Weight table_;
  Matrix out_;
};

class InputOp final : public Operation {
 public:
  InputOp(const Input& op, const Parts& parts) : out_(parts.matrix(op.out)) {}
  void run(const Step& step, int worker, int workers) override {
    const Share share = share_of(step.rows * out_.width, kLanes, worker, workers);
    for (std::int64_t at = share.first; at < share.last;) {
      const std::int64_t row = at / out_.width;
      const std::int64_t end = std::min(share.last, (row + 1) * out_.width);
      const float* from = host_row(step.args->hidden, static_cast<int>(row)) + (at - row * out_.width);
      std::memcpy(out_.data + at, from, static_cast<std::size_t>(end - at) * sizeof(float));
      at = end;
    }
  }

 private:
  Matrix out_;
};

/// Element by element over two matrices of one width; a worker has the columns that it has of a linear.
class BinaryOp final : public Operation {
 public:
  BinaryOp(Row a, Row b, Row out, void (*Kernels::*kernel)(const float*, const float*, std::int64_t, float*),
           const Parts& parts)
      : a_(parts.matrix(a)), b_(parts.matrix(b)), out_(parts.matrix(out)), kernel_(kernel) {}
  void run(const Step& step, int worker, int workers) override {
    const Share share = share_of(out_.width, kLanes, worker, workers);
    const Matrix a = step.of(a_, worker);
    const Matrix b = step.of(b_, worker);
    for (std::int64_t r = 0; r < step.rows; ++r) {
      (step.kernels->*kernel_)(a.row(r) + share.first, b.row(r) + share.first, share.last - share.first,
                               out_.row(r) + share.first);
    }
  }

 private:
  Matrix a_, b_, out_;
  void (*Kernels::*kernel_)(const float*, const float*, std::int64_t, float*);
};

class ConcatOp final : public Operation {
 public:
  ConcatOp(const Concat& op, const Parts& parts)
      : a_(parts.matrix(op.a)), b_(parts.matrix(op.b)), out_(parts.matrix(op.out)) {}
  void run(const Step& step, int worker, int workers) override {
    const Share share = step.few ? Share{0, step.rows} : share_of(step.rows, 1, worker, workers);
    const Matrix a = step.of(a_, worker);
    const Matrix b = step.of(b_, worker);
    const Matrix out = step.of(out_, worker);
    for (std::int64_t r = share.first; r < share.last; ++r) {
      std::memcpy(out.row(r), a.row(r), static_cast<std::size_t>(a.width) * sizeof(float));
      std::memcpy(out.row(r) + a.width, b.row(r), static_cast<std::size_t>(b.width) * sizeof(float));
    }
  }

 private:
  Matrix a_, b_, out_;
};

}  // namespace

std::unique_ptr<Operation> make_embed(const Embed& op, const Parts& parts) {
  return std::make_unique<EmbedOp>(op, parts);
}
std::unique_ptr<Operation> make_input(const Input& op, const Parts& parts) {
  return std::make_unique<InputOp>(op, parts);
}
std::unique_ptr<Operation> make_swiglu(const Swiglu& op, const Parts& parts) {
  return std::make_unique<BinaryOp>(op.gate, op.up, op.out, &Kernels::swiglu, parts);
}
std::unique_ptr<Operation> make_geglu(const Geglu& op, const Parts& parts) {
  return std::make_unique<BinaryOp>(op.gate, op.up, op.out, &Kernels::geglu, parts);
}
std::unique_ptr<Operation> make_add(const Add& op, const Parts& parts) {
  return std::make_unique<BinaryOp>(op.a, op.b, op.out, &Kernels::add, parts);
}
std::unique_ptr<Operation> make_concat(const Concat& op, const Parts& parts) {
  return std::make_unique<ConcatOp>(op, parts);
}

}  // namespace ft::cpu
