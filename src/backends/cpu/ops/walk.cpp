#include "backends/cpu/denormals.h"
#include "backends/cpu/executable.h"
#include "backends/host_rows.h"
#include "sampling/sample.h"

namespace ft::cpu {
namespace {

/// First each worker finds the candidates of its rows, which is most of the work. Then it walks its segments.
class WalkOp final : public Operation {
 public:
  WalkOp(const Walk& op, const BuildContext& context)
      : outputs_(*context.outputs),
        factors_(context.matrix(op.factors)),
        own_(static_cast<std::size_t>(context.workers)),
        columns_(static_cast<std::size_t>(context.options.max_logit_rows)) {
    const Walker& walker = *outputs_.walker;
    for (std::vector<std::int32_t>& columns : columns_)
      columns.reserve(static_cast<std::size_t>(op.candidates) + 1);
    for (Own& own : own_) {
      walker.reserve(own.walk, own.candidates);
      own.sample.reserve(static_cast<std::size_t>(op.candidates));
    }
  }

  void run(const Step& step, int worker, int workers) override {
    const FlushDenormals exact(false);  // a token is chosen by the same arithmetic on every backend
    const auto& samples = step.args->samples;
    for (auto w = static_cast<std::size_t>(worker); w < samples.size();
         w += static_cast<std::size_t>(workers))
      outputs_.walker->choose(logits(w), outputs_.tokens(), samples[w].mask, columns_[w]);
    step.barrier(worker);
    std::size_t w = 0;
    int first_row = 0, number = 0;
    for (const Segment& segment : step.args->segments) {
      const std::size_t begin = w;
      while (w < samples.size() && step.args->logit_rows[w] < first_row + segment.rows) ++w;
      if (number++ % workers == worker)
        walk(step, worker, begin, w, step.tokens[static_cast<std::size_t>(first_row)]);
      first_row += segment.rows;
    }
  }

 private:
  struct Own {
    WalkScratch walk;
    WalkCandidates candidates;
    SampleScratch sample;
  };

  std::span<const float> logits(std::size_t w) const {
    return {outputs_.logits.row(static_cast<std::int64_t>(w)),
            static_cast<std::size_t>(outputs_.logits.width)};
  }

  /// Logit rows [begin, end), of one segment.
  void walk(const Step& step, int worker, std::size_t begin, std::size_t end, std::int32_t before) {
    Own& own = own_[static_cast<std::size_t>(worker)];
    for (std::size_t w = begin; w < end; ++w) {
      const SampleRow& row = step.args->samples[w];
      const float* factors =
          factors_.data == nullptr ? nullptr : step.of(factors_, worker).row(step.args->logit_rows[w]);
      own.walk.columns.assign(columns_[w].begin(), columns_[w].end());
      outputs_.walker->score(logits(w), outputs_.tokens(), factors, before, own.walk, own.candidates);
      before = ft::sample(own.candidates.scores, own.candidates.ids, row, own.sample,
                          drafts_of(*step.args, {step.tokens, step.args->tokens.size()}, w));
      outputs_.sampled[w] = before;
      if (row.store >= 0) step.args->round_tokens[static_cast<std::size_t>(row.store)] = before;
    }
  }

  StepOutputs& outputs_;
  Matrix factors_;
  std::vector<Own> own_;                            // [workers]
  std::vector<std::vector<std::int32_t>> columns_;  // [max_logit_rows] of the candidates
};

}  // namespace

std::unique_ptr<Operation> make(const Walk& op, const BuildContext& context) {
  context.outputs->samples = true;
  context.outputs->walker = std::make_unique<Walker>(op);
  context.outputs->factors = context.matrix(op.factors);
  return std::make_unique<WalkOp>(op, context);
}

}  // namespace ft::cpu
