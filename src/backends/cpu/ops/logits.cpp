#include "backends/cpu/denormals.h"
#include "backends/cpu/executable.h"
#include "backends/host_rows.h"
#include "sampling/sample.h"

namespace ft::cpu {
namespace {

class SampleOp final : public Operation {
 public:
  SampleOp(StepOutputs& outputs, int workers)
      : outputs_(outputs), scratch_(static_cast<std::size_t>(workers)) {
    for (SampleScratch& scratch : scratch_) scratch.reserve(static_cast<std::size_t>(outputs.logits.width));
    extra_logits_.resize(scratch_.size() * outputs.extra.columns());
  }

  void run(const Step& step, int worker, int workers) override {
    const FlushDenormals exact(false);  // a token is chosen by the same arithmetic on every backend
    const auto& samples = step.args->samples;
    const auto own = static_cast<std::size_t>(worker);
    for (std::size_t w = own; w < step.args->logit_rows.size(); w += static_cast<std::size_t>(workers)) {
      float* const logits = outputs_.logits.row(static_cast<std::int64_t>(w));
      const ExtraIdHead& extra = outputs_.extra;
      if (!extra.empty()) extra.arrange(logits, extra_logits_.data() + own * extra.columns());
      if (w >= samples.size()) continue;
      const std::span<const float> row(logits, static_cast<std::size_t>(outputs_.logits.width));
      outputs_.sampled[w] = ft::sample(row, outputs_.tokens(), samples[w], scratch_[own],
                                       drafts_of(*step.args, {step.tokens, step.args->tokens.size()}, w));
      const std::int32_t store = samples[w].store;
      if (store >= 0) step.args->round_tokens[static_cast<std::size_t>(store)] = outputs_.sampled[w];
    }
  }

 private:
  StepOutputs& outputs_;
  std::vector<SampleScratch> scratch_;
  std::vector<float> extra_logits_;  // [workers, extra columns]
};

}  // namespace

Needs needs(const Logits& /*op*/, const BuildContext& context) {
  return {linear_scratch_bytes(context.packed, context.options.max_logit_rows, context), 0};
}

std::unique_ptr<Operation> make(const Logits& op, const BuildContext& context) {
  StepOutputs& outputs = *context.outputs;
  outputs.ids = op.tokens();
  LinearParts linear{{context.packed.front()}, context.matrix(op.in), {outputs.logits}, true, op.softcap};
  if (!outputs.extra.empty()) {
    linear.weights.push_back(outputs.extra.packed());
    linear.outs.push_back({outputs.logits.data + outputs.extra.ids().fixed(), outputs.logits.width});
  }
  return make_linear(std::move(linear), context);
}

std::unique_ptr<Operation> make(const Sample& /*op*/, const BuildContext& context) {
  context.outputs->samples = true;
  return std::make_unique<SampleOp>(*context.outputs, context.workers);
}

}  // namespace ft::cpu
