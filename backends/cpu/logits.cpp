#include "backends/cpu/denormals.h"
#include "backends/cpu/executable.h"
#include "sampling/select.h"

namespace ft::cpu {
namespace {

class SelectOp final : public Operation {
 public:
  SelectOp(Outcome& outcome, int workers) : outcome_(outcome), scratch_(static_cast<std::size_t>(workers)) {
    for (SelectScratch& scratch : scratch_) scratch.reserve(static_cast<std::size_t>(outcome.logits.width));
    spare_logits_.resize(scratch_.size() * outcome.spare.columns());
  }

  void run(const Step& step, int worker, int workers) override {
    const FlushDenormals exact(false);  // a token is chosen by the same arithmetic on every backend
    const auto& selects = step.args->selects;
    const auto own = static_cast<std::size_t>(worker);
    for (std::size_t w = own; w < step.args->wanted.size(); w += static_cast<std::size_t>(workers)) {
      float* const logits = outcome_.logits.row(static_cast<std::int64_t>(w));
      const SpareHead& spare = outcome_.spare;
      if (!spare.empty()) spare.arrange(logits, spare_logits_.data() + own * spare.columns());
      if (w >= selects.size()) continue;
      const std::span<const float> row(logits, static_cast<std::size_t>(outcome_.logits.width));
      outcome_.selected[w] =
          ft::select(row, outcome_.tokens(), selects[w], scratch_[own], drafts_of(step, w));
      const std::int32_t store = selects[w].store;
      if (store >= 0) step.args->round_tokens[static_cast<std::size_t>(store)] = outcome_.selected[w];
    }
  }

 private:
  /// The tokens that count as emitted before logit row `w`.
  static std::span<const std::int32_t> drafts_of(const Step& step, std::size_t w) {
    const DraftPlaces& drafts = step.args->selects[w].drafts;
    const auto count = static_cast<std::size_t>(drafts.count);
    if (drafts.first >= 0)
      return step.args->round_tokens.subspan(static_cast<std::size_t>(drafts.first), count);
    return {step.tokens + step.args->wanted[w] + 1 - drafts.count, count};
  }

  Outcome& outcome_;
  std::vector<SelectScratch> scratch_;
  std::vector<float> spare_logits_;  // [workers, spare columns]
};

}  // namespace

Needs needs(const Logits& /*op*/, const Parts& parts) {
  return {linear_scratch_bytes(parts.packed, parts.options.max_wanted, parts), 0};
}

std::unique_ptr<Operation> make(const Logits& op, const Parts& parts) {
  Outcome& outcome = *parts.outcome;
  outcome.ids = op.tokens();
  LinearParts linear{{parts.packed.front()}, parts.matrix(op.in), {outcome.logits}, true, op.softcap};
  if (!outcome.spare.empty()) {
    linear.weights.push_back(outcome.spare.packed());
    linear.outs.push_back({outcome.logits.data + outcome.spare.ids().fixed(), outcome.logits.width});
  }
  return make_linear(std::move(linear), parts);
}

std::unique_ptr<Operation> make(const Select& /*op*/, const Parts& parts) {
  parts.outcome->selects = true;
  return std::make_unique<SelectOp>(*parts.outcome, parts.workers);
}

}  // namespace ft::cpu
