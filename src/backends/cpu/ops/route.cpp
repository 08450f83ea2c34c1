#include <algorithm>
#include <cmath>

#include "backends/cpu/executable.h"
#include "backends/weight_rows.h"

namespace ft::cpu {
namespace {

class RouteOp final : public Operation {
 public:
  RouteOp(const TopKRouter& op, const BuildContext& context)
      : scores_(context.matrix(op.scores)),
        out_(context.matrix(op.out)),
        chosen_(op.chosen),
        renormalised_(op.renormalised),
        by_sigmoid_(op.score == RouterScore::kSigmoid),
        factor_(op.factor),
        scratch_(context.worker_scratch),
        scratch_floats_(context.worker_floats) {
    scale_ = vector(op.scale);
    bias_ = vector(op.selection_bias);
  }

  void run(const Step& step, int worker, int workers) override {
    const Range range = step.small_batch ? Range{0, step.rows} : partition(step.rows, 1, worker, workers);
    const Matrix scores = step.of(scores_, worker);
    const Matrix out = step.of(out_, worker);
    float* own = scratch_ + worker * scratch_floats_;
    for (std::int64_t r = range.first; r < range.last; ++r)
      route(*step.kernels, scores.row(r), own, out.row(r));
  }

 private:
  static std::vector<float> vector(const Weight& weight) {
    std::vector<float> values(weight.empty() ? 0 : static_cast<std::size_t>(weight.rows * weight.cols));
    if (!weight.empty()) read_rows(weight, 0, 1, values.data());
    return values;
  }

  /// Places below a higher score move down. A score that is not a number is never higher, so the indices stay
  /// distinct whatever the scores are.
  void choose(const float* merits, float* indices) const {
    int found = 0;
    for (int e = 0; e < static_cast<int>(scores_.width); ++e) {
      int at = found < chosen_ ? found++ : chosen_;
      for (; at > 0 && merits[e] > merits[static_cast<int>(indices[at - 1])]; --at)
        if (at < chosen_) indices[at] = indices[at - 1];
      if (at < chosen_) indices[at] = static_cast<float>(e);
    }
  }

  static void sigmoids(const Kernels& kernels, float* values, std::int64_t count) {
    for (std::int64_t e = 0; e < count; ++e) values[e] = -values[e];
    kernels.exponentials(values, 0, count, values);
    for (std::int64_t e = 0; e < count; ++e) values[e] = 1 / (1 + values[e]);
  }

  /// own: [experts] of the worker's scratch.
  void route(const Kernels& kernels, const float* scores, float* own, float* out) const {
    if (by_sigmoid_)
      route_by_sigmoid(kernels, scores, own, out);
    else
      route_by_softmax(kernels, scores, own, out);
    for (int j = 0; j < chosen_; ++j) {
      float& weight = out[chosen_ + j];
      if (!scale_.empty()) weight *= scale_[static_cast<std::size_t>(out[j])];
      weight *= factor_;
    }
  }

  void route_by_softmax(const Kernels& kernels, const float* scores, float* own, float* out) const {
    choose(scores, out);
    float* weights = out + chosen_;
    const float highest = scores[static_cast<int>(out[0])];
    for (int j = 0; j < chosen_; ++j) own[j] = scores[static_cast<int>(out[j])];
    kernels.exponentials(own, highest, chosen_, weights);
    float sum = 0;
    for (int j = 0; j < chosen_; ++j) sum += weights[j];
    if (!renormalised_) {
      kernels.exponentials(scores, highest, scores_.width, own);
      sum = 0;
      for (std::int64_t e = 0; e < scores_.width; ++e) sum += own[e];
    }
    for (int j = 0; j < chosen_; ++j) weights[j] /= sum;
  }

  void route_by_sigmoid(const Kernels& kernels, const float* scores, float* own, float* out) const {
    std::copy_n(scores, scores_.width, own);
    sigmoids(kernels, own, scores_.width);
    for (std::int64_t e = 0; e < scores_.width; ++e) {
      if (!bias_.empty()) own[e] += bias_[static_cast<std::size_t>(e)];
      if (std::isnan(scores[e])) own[e] = scores[e];  // whatever the kernel returned
    }
    choose(own, out);
    float* weights = out + chosen_;
    for (int j = 0; j < chosen_; ++j) weights[j] = scores[static_cast<int>(out[j])];
    sigmoids(kernels, weights, chosen_);
    if (!renormalised_) return;
    float sum = kMinRouterSum;
    for (int j = 0; j < chosen_; ++j) sum += weights[j];
    for (int j = 0; j < chosen_; ++j) weights[j] /= sum;
  }

  Matrix scores_, out_;
  int chosen_;
  bool renormalised_, by_sigmoid_;
  float factor_;
  float* scratch_;
  std::int64_t scratch_floats_;      // of each worker
  std::vector<float> scale_, bias_;  // [experts], or empty
};

}  // namespace

Needs needs(const TopKRouter& op, const BuildContext& /*context*/) { return {0, op.scores.width}; }

std::unique_ptr<Operation> make(const TopKRouter& op, const BuildContext& context) {
  return std::make_unique<RouteOp>(op, context);
}

}  // namespace ft::cpu
