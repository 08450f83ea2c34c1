#include "backends/host_rows.h"
#include "backends/ref/executable.h"

namespace ft::ref {

void execute(const Step& step, const Walk& op, Weights /*weights*/) {
  StepOutputs& outputs = *step.outputs;
  const auto width = static_cast<std::size_t>(outputs.vocabulary);
  const Walker walker(op);
  std::size_t w = 0;
  int first_row = 0;
  for (const Segment& segment : step.args->segments) {
    std::int32_t before = step.tokens[static_cast<std::size_t>(first_row)];
    first_row += segment.rows;
    for (; w < step.args->samples.size() && step.args->logit_rows[w] < first_row; ++w) {
      const SampleRow& row = step.args->samples[w];
      const std::span<const float> logits = std::span(outputs.logits).subspan(w * width, width);
      const float* factors = op.factors.id < 0 ? nullptr : step.row(op.factors, step.args->logit_rows[w]);
      walker.choose(logits, outputs.ids, row.mask, outputs.walk.columns);
      walker.score(logits, outputs.ids, factors, before, outputs.walk, outputs.candidates);
      before = ft::sample(outputs.candidates.scores, outputs.candidates.ids, row, outputs.scratch,
                          drafts_of(*step.args, step.tokens, w));
      outputs.sampled[w] = before;
      if (row.store >= 0) step.args->round_tokens[static_cast<std::size_t>(row.store)] = before;
    }
  }
  outputs.result.sampled = {outputs.sampled.data(), step.args->samples.size()};
}

}  // namespace ft::ref
