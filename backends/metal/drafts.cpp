#include "backends/metal/drafts.h"

#include <algorithm>
#include <iterator>

namespace ft::metal {
namespace {

constexpr std::size_t kMostBiases = std::size(DraftRowArgs{}.bias_tokens);

bool penalises(const SampleRow& row) {
  const SamplingParams& sampler = *row.sampler;
  const bool any = sampler.repetition != 1 || sampler.presence != 0 || sampler.frequency != 0;
  return any && (!row.history.empty() || row.drafts.count > 0);
}

bool keeps_some(const SamplingParams& sampler, std::int64_t columns) {
  return sampler.top_k > 0 && sampler.top_k < columns;
}

}  // namespace

Drafts device_drafts(std::span<const SampleRow> rows, std::int64_t /*columns*/) {
  Drafts all = Drafts::kNone;
  for (const SampleRow& row : rows) {
    if (row.exact || row.stream != Stream::kTarget || !row.mask.empty() || penalises(row) ||
        row.bias.size() > kMostBiases) {
      return Drafts::kNone;
    }
    if (row.sampler->temperature > 0) return Drafts::kNone;
    Drafts own = Drafts::kGreedy;
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
  args.top_k = keeps_some(sampler, columns) ? sampler.top_k : 0;
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

}  // namespace ft::metal
