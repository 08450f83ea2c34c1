#include "backends/metal/drafts.h"

#include <algorithm>
#include <iterator>

#include "backends/metal/executable.h"
#include "sampling/filters.h"

namespace ft::metal {
namespace {

constexpr std::size_t kMaxBiases = std::size(DraftRowArgs{}.bias_tokens);

bool keeps_some(const SamplingParams& sampler, std::int64_t columns) {
  return sampler.top_k > 0 && sampler.top_k < columns;
}

}  // namespace

Drafts device_drafts(std::span<const SampleRow> rows, std::int64_t columns) {
  Drafts all = Drafts::kNone;
  for (const SampleRow& row : rows) {
    const SamplingParams& sampler = *row.sampler;
    if (row.exact || row.stream != Stream::kTarget || !row.mask.empty() || row.bias.size() > kMaxBiases)
      return Drafts::kNone;
    if (penalises(sampler) && (!row.history.empty() || row.drafts.count > 0)) return Drafts::kNone;
    Drafts own = Drafts::kGreedy;
    if (sampler.temperature > 0) {
      const bool keeps = keeps_some(sampler, columns);
      if (keeps ? sampler.top_k > kMaxKept : sampler.top_p < 1) return Drafts::kNone;
      own = filters(sampler, static_cast<std::size_t>(columns)) ? Drafts::kFiltered : Drafts::kDraws;
    }
    all = std::max(all, own);
  }
  return all;
}

DraftRowArgs draft_row(const SampleRow& row, std::int64_t columns) {
  const SamplingParams& sampler = *row.sampler;
  const auto position = static_cast<std::uint64_t>(row.position);
  DraftRowArgs args{};
  args.seed_low = static_cast<FtNumber>(sampler.seed);
  args.seed_high = static_cast<FtNumber>(sampler.seed >> 32);
  args.position_low = static_cast<FtNumber>(position);
  args.position_high = static_cast<FtNumber>(position >> 32);
  args.stream = static_cast<FtNumber>(row.stream);
  args.store = row.store;
  args.top_k = sampler.temperature > 0 && keeps_some(sampler, columns) ? sampler.top_k : 0;
  args.temperature = sampler.temperature;
  args.top_p = sampler.top_p;
  args.min_p = sampler.min_p;
  args.biases = static_cast<FtNumber>(row.bias.size());
  for (std::size_t i = 0; i < row.bias.size(); ++i) {
    args.bias_tokens[i] = row.bias[i].token;
    args.bias_values[i] = row.bias[i].value;
  }
  return args;
}

/// Drafts; other rows are sampled on the host, after the launches (executable.cpp).
void encode(const Step& step, const Sample&, const Parts&) {
  constexpr unsigned kColumns = 4096, kThreads = 256;  // of kernels/draft.h
  if (step.drafts == Drafts::kNone) return;
  const auto rows = static_cast<unsigned>(step.args->logit_rows.size());
  const auto columns = static_cast<unsigned>(step.columns);
  const DraftArgs args{columns, (columns + kColumns - 1) / kColumns, step.ids.buffer != nullptr ? 1U : 0U,
                       step.memory->kept(), step.drafts == Drafts::kFiltered ? 1U : 0U};
  const Place ids = step.ids.buffer != nullptr ? step.ids : step.logits, drafts = step.memory->drafts();
  const Place tops = step.scratch->take("tops", std::size_t{rows} * args.parts * 2 * sizeof(float));
  const Grid all{args.parts, rows, 1}, one{1, rows, 1};
  launch(step, "draft_tops", {step.logits, ids, drafts, tops}, as_args(args), all, kThreads);
  Place best = tops;
  if (step.drafts != Drafts::kGreedy) {
    const Place limits = step.scratch->take("limits", std::size_t{rows} * sizeof(float));
    best = step.scratch->take("scores", std::size_t{rows} * args.parts * 2 * sizeof(float));
    if (step.drafts == Drafts::kFiltered) {
      const std::size_t kept = std::size_t{rows} * args.parts * args.kept;
      const Place list = step.scratch->take("kept", kept * sizeof(float));
      if (args.kept > 0)
        launch(step, "draft_keep", {step.logits, ids, drafts, list}, as_args(args), all, kThreads);
      launch(step, "draft_limit", {list, tops, drafts, limits}, as_args(args), one, kThreads);
    }
    launch(step, "draft_scores", {step.logits, ids, drafts, tops, limits, best}, as_args(args), all,
           kThreads);
  }
  launch(step, "draft_choice", {best, drafts, step.chosen, step.round}, as_args(args), one, kThreads);
}

}  // namespace ft::metal
