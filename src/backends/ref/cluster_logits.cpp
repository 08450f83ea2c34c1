#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/ref/executable.h"

namespace ft::ref {

void execute(const Step& step, const ClusterLogits& op, Weights weights) {
  const Decoded& table = weights.take(op.table);
  StepOutputs& outputs = *step.outputs;
  const auto columns = static_cast<std::size_t>(outputs.vocabulary);
  const int size = op.cluster_size();
  std::fill(outputs.logits.begin(), outputs.logits.end(), -std::numeric_limits<float>::infinity());
  for (std::size_t w = 0; w < step.args->logit_rows.size(); ++w) {
    const float* in = step.row(op.in, step.args->logit_rows[w]);
    const float* routes = step.row(op.routes, step.args->logit_rows[w]);
    for (int j = 0; j < op.chosen() * size; ++j) {
      const int place = static_cast<int>(routes[j / size]) * size + j % size;
      const auto token = static_cast<std::size_t>(op.tokens[static_cast<std::size_t>(place)]);
      float& logit = outputs.logits[w * columns + token];
      logit = dot(in, table.values.data() + token * static_cast<std::size_t>(table.cols), table.cols);
      if (op.softcap > 0) logit = op.softcap * std::tanh(logit / op.softcap);
    }
  }
  if (!step.args->logits) return;
  outputs.result.logits = {outputs.logits.data(), step.args->logit_rows.size() * columns};
}

}  // namespace ft::ref
