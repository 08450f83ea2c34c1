#include <cmath>

#include "backends/host_rows.h"
#include "backends/ref/executable.h"

namespace ft::ref {

void execute(const Step& step, const Logits& op, Weights weights) {
  const Decoded& head = weights.take(op.head);
  Outcome& outcome = *step.outcome;
  const auto columns = static_cast<std::size_t>(outcome.vocabulary);
  for (std::size_t w = 0; w < step.args->logit_rows.size(); ++w) {
    const float* in = step.row(op.in, step.args->logit_rows[w]);
    for (std::size_t v = 0; v < columns; ++v) {
      const std::size_t row = op.ids.empty() ? v : static_cast<std::size_t>(outcome.ids[v]);
      float& logit = outcome.logits[w * columns + v];
      logit = dot(in, head.values.data() + row * static_cast<std::size_t>(head.cols), head.cols);
      if (op.softcap > 0) logit = op.softcap * std::tanh(logit / op.softcap);
    }
  }
  if (!step.args->logits) return;
  outcome.result.logits = {outcome.logits.data(), step.args->logit_rows.size() * columns};
}

void execute(const Step& step, const Sample& /*op*/, Weights /*weights*/) {
  Outcome& outcome = *step.outcome;
  const auto width = static_cast<std::size_t>(outcome.vocabulary);
  for (std::size_t w = 0; w < step.args->samples.size(); ++w) {
    const SampleRow& row = step.args->samples[w];
    outcome.sampled[w] = ft::sample(std::span<const float>(outcome.logits).subspan(w * width, width),
                                    outcome.ids, row, outcome.scratch, drafts_of(*step.args, step.tokens, w));
    if (row.store >= 0) step.args->round_tokens[static_cast<std::size_t>(row.store)] = outcome.sampled[w];
  }
  outcome.result.sampled = {outcome.sampled.data(), step.args->samples.size()};
}

}  // namespace ft::ref
