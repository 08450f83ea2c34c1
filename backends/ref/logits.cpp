#include <cmath>

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

namespace {

/// The tokens that count as emitted before logit row `w`.
std::span<const std::int32_t> drafts_of(const Step& step, std::size_t w) {
  const DraftPlaces& drafts = step.args->samples[w].drafts;
  const auto count = static_cast<std::size_t>(drafts.count);
  if (drafts.first >= 0)
    return step.args->round_tokens.subspan(static_cast<std::size_t>(drafts.first), count);
  const auto end = static_cast<std::size_t>(step.args->logit_rows[w]) + 1;
  return std::span<const std::int32_t>(step.tokens).subspan(end - count, count);
}

}  // namespace

void execute(const Step& step, const Sample& /*op*/, Weights /*weights*/) {
  Outcome& outcome = *step.outcome;
  const auto width = static_cast<std::size_t>(outcome.vocabulary);
  for (std::size_t w = 0; w < step.args->samples.size(); ++w) {
    const SampleRow& row = step.args->samples[w];
    outcome.sampled[w] = ft::sample(std::span<const float>(outcome.logits).subspan(w * width, width),
                                    outcome.ids, row, outcome.scratch, drafts_of(step, w));
    if (row.store >= 0) step.args->round_tokens[static_cast<std::size_t>(row.store)] = outcome.sampled[w];
  }
  outcome.result.sampled = {outcome.sampled.data(), step.args->samples.size()};
}

}  // namespace ft::ref
