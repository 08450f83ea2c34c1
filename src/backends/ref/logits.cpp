#include <cmath>

#include "backends/host_rows.h"
#include "backends/ref/executable.h"

namespace ft::ref {

void execute(const Step& step, const Logits& op, Weights weights) {
  const Decoded& head = weights.take(op.lm_head);
  StepOutputs& outputs = *step.outputs;
  const auto columns = static_cast<std::size_t>(outputs.vocabulary);
  for (std::size_t w = 0; w < step.args->logit_rows.size(); ++w) {
    const float* in = step.row(op.in, step.args->logit_rows[w]);
    for (std::size_t v = 0; v < columns; ++v) {
      const std::size_t row = op.ids.empty() ? v : static_cast<std::size_t>(outputs.ids[v]);
      float& logit = outputs.logits[w * columns + v];
      logit = dot(in, head.values.data() + row * static_cast<std::size_t>(head.cols), head.cols);
      if (op.softcap > 0) logit = op.softcap * std::tanh(logit / op.softcap);
    }
  }
  if (!step.args->logits) return;
  outputs.result.logits = {outputs.logits.data(), step.args->logit_rows.size() * columns};
}

void execute(const Step& step, const Sample& /*op*/, Weights /*weights*/) {
  StepOutputs& outputs = *step.outputs;
  const auto width = static_cast<std::size_t>(outputs.vocabulary);
  for (std::size_t w = 0; w < step.args->samples.size(); ++w) {
    const SampleRow& row = step.args->samples[w];
    outputs.sampled[w] = ft::sample(std::span<const float>(outputs.logits).subspan(w * width, width),
                                    outputs.ids, row, outputs.scratch, drafts_of(*step.args, step.tokens, w));
    if (row.store >= 0) step.args->round_tokens[static_cast<std::size_t>(row.store)] = outputs.sampled[w];
  }
  outputs.result.sampled = {outputs.sampled.data(), step.args->samples.size()};
}

}  // namespace ft::ref
