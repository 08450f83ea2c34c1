#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/cpu/executable.h"
#include "backends/weight_rows.h"

namespace ft::cpu {
namespace {

/// Workers share the columns as in a linear. A worker reads the rows of the table in the checkpoint itself,
/// because a step needs few of them.
class ClusterLogitsOp final : public Operation {
 public:
  ClusterLogitsOp(const ClusterLogits& op, const BuildContext& context)
      : op_(op),
        outputs_(*context.outputs),
        in_(context.matrix(op.in)),
        routes_(context.matrix(op.routes)),
        scratch_(context.worker_scratch),
        scratch_floats_(context.worker_floats) {}

  void run(const Step& step, int worker, int workers) override {
    const Range range = partition(outputs_.logits.width, kLanes, worker, workers);
    const Matrix in = step.of(in_, worker), routes = step.of(routes_, worker);
    float* const own = scratch_ + worker * scratch_floats_;
    for (std::size_t w = 0; w < step.args->logit_rows.size(); ++w) {
      float* const logits = outputs_.logits.row(static_cast<std::int64_t>(w));
      std::fill(logits + range.first, logits + range.last, -std::numeric_limits<float>::infinity());
      const float* row = in.row(step.args->logit_rows[w]);
      const float* clusters = routes.row(step.args->logit_rows[w]);
      for (int j = 0; j < op_.chosen(); ++j) {
        const auto first =
            static_cast<std::size_t>(clusters[j]) * static_cast<std::size_t>(op_.cluster_size());
        for (const std::int32_t token :
             std::span(op_.tokens).subspan(first, static_cast<std::size_t>(op_.cluster_size()))) {
          if (token >= range.first && token < range.last) logits[token] = logit(row, token, own);
        }
      }
    }
  }

 private:
  float logit(const float* row, std::int32_t token, float* own) const {
    read_rows(op_.table, token, 1, own);
    float sums[kLanes] = {};
    const std::int64_t whole = op_.table.cols / kLanes * kLanes;
    for (std::int64_t at = 0; at < whole; at += kLanes) {
      for (std::int64_t i = 0; i < kLanes; ++i) sums[i] += row[at + i] * own[at + i];
    }
    for (std::int64_t i = whole; i < op_.table.cols; ++i) sums[i - whole] += row[i] * own[i];
    float sum = 0;
    for (const float part : sums) sum += part;
    return op_.softcap > 0 ? op_.softcap * std::tanh(sum / op_.softcap) : sum;
  }

  ClusterLogits op_;
  StepOutputs& outputs_;
  Matrix in_, routes_;
  float* scratch_;
  std::int64_t scratch_floats_;  // of each worker
};

}  // namespace

Needs needs(const ClusterLogits& op, const BuildContext& /*context*/) { return {0, op.table.cols}; }

std::unique_ptr<Operation> make(const ClusterLogits& op, const BuildContext& context) {
  return std::make_unique<ClusterLogitsOp>(op, context);
}

}  // namespace ft::cpu
