#include <cstring>

#include "backends/cpu/executable.h"
#include "backends/host_rows.h"
#include "backends/weight_rows.h"

namespace ft::cpu {
namespace {

class EmbedOp final : public Operation {
 public:
  EmbedOp(const Embed& op, const BuildContext& context) : table_(op.table), out_(context.matrix(op.out)) {}
  void run(const Step& step, int worker, int workers) override {
    const Range range = partition(step.rows, 1, worker, workers);
    for (std::int64_t r = range.first; r < range.last; ++r) {
      const RowPlaces& given = step.args->embeddings;
      if (given.store == nullptr || given.places[static_cast<std::size_t>(r)] < 0) {
        read_rows(table_, step.tokens[r], 1, out_.row(r));
      } else {
        const float* row = host_row(given, static_cast<int>(r));
        std::memcpy(out_.row(r), row, static_cast<std::size_t>(out_.width) * sizeof(float));
      }
    }
  }

 private:
  Weight table_;
  Matrix out_;
};

class InputOp final : public Operation {
 public:
  InputOp(const Input& op, const BuildContext& context) : out_(context.matrix(op.out)), number_(op.number) {}
  void run(const Step& step, int worker, int workers) override {
    const RowPlaces places = step.args->input(number_);
    const Range range = partition(step.rows * out_.width, kLanes, worker, workers);
    for (std::int64_t at = range.first; at < range.last;) {
      const std::int64_t row = at / out_.width;
      const std::int64_t end = std::min(range.last, (row + 1) * out_.width);
      const float* from = host_row(places, static_cast<int>(row)) + (at - row * out_.width);
      std::memcpy(out_.data + at, from, static_cast<std::size_t>(end - at) * sizeof(float));
      at = end;
    }
  }

 private:
  Matrix out_;
  int number_;
};

}  // namespace

std::unique_ptr<Operation> make(const Embed& op, const BuildContext& context) {
  return std::make_unique<EmbedOp>(op, context);
}
std::unique_ptr<Operation> make(const Input& op, const BuildContext& context) {
  return std::make_unique<InputOp>(op, context);
}
/// The rows are written to their places after the step.
std::unique_ptr<Operation> make(const Capture& op, const BuildContext& context) {
  context.outputs->captures[static_cast<std::size_t>(op.number)] = context.matrix(op.in);
  return nullptr;
}

}  // namespace ft::cpu
