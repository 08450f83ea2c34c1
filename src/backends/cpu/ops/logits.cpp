#include "backends/cpu/denormals.h"
#include "backends/cpu/executable.h"
#include "backends/host_rows.h"
#include "sampling/sample.h"

namespace ft::cpu {
namespace {

class SampleOp final : public Operation {
 public:
  SampleOp(Outcome& outcome, int workers) : outcome_(outcome), scratch_(static_cast<std::size_t>(workers)) {
    for (SampleScratch& scratch : scratch_) scratch.reserve(static_cast<std::size_t>(outcome.logits.width));
    extra_logits_.resize(scratch_.size() * outcome.extra.columns());
  }

  void run(const Step& step, int worker, int workers) override {
    const FlushDenormals exact(false);  // a token is chosen by the same arithmetic on every backend
    const auto& samples = step.args->samples;
    const auto own = static_cast<std::size_t>(worker);
    for (std::size_t w = own; w < step.args->logit_rows.size(); w += static_cast<std::size_t>(workers)) {
      float* const logits = outcome_.logits.row(static_cast<std::int64_t>(w));
      const ExtraIdHead& extra = outcome_.extra;
      if (!extra.empty()) extra.arrange(logits, extra_logits_.data() + own * extra.columns());
      if (w >= samples.size()) continue;
      const std::span<const float> row(logits, static_cast<std::size_t>(outcome_.logits.width));
      outcome_.sampled[w] = ft::sample(row, outcome_.tokens(), samples[w], scratch_[own],
                                       drafts_of(*step.args, {step.tokens, step.args->tokens.size()}, w));
      const std::int32_t store = samples[w].store;
      if (store >= 0) step.args->round_tokens[static_cast<std::size_t>(store)] = outcome_.sampled[w];
    }
  }

 private:
  Outcome& outcome_;
  std::vector<SampleScratch> scratch_;
  std::vector<float> extra_logits_;  // [workers, extra columns]
};

}  // namespace

Needs needs(const Logits& /*op*/, const Parts& parts) {
  return {linear_scratch_bytes(parts.packed, parts.options.max_logit_rows, parts), 0};
}

std::unique_ptr<Operation> make(const Logits& op, const Parts& parts) {
  Outcome& outcome = *parts.outcome;
  outcome.ids = op.tokens();
  LinearParts linear{{parts.packed.front()}, parts.matrix(op.in), {outcome.logits}, true, op.softcap};
  if (!outcome.extra.empty()) {
    linear.weights.push_back(outcome.extra.packed());
    linear.outs.push_back({outcome.logits.data + outcome.extra.ids().fixed(), outcome.logits.width});
  }
  return make_linear(std::move(linear), parts);
}

std::unique_ptr<Operation> make(const Sample& /*op*/, const Parts& parts) {
  parts.outcome->samples = true;
  return std::make_unique<SampleOp>(*parts.outcome, parts.workers);
}

}  // namespace ft::cpu
