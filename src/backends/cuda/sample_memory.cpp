#include "backends/cuda/sample_memory.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "sampling/filters.h"

namespace ft::cuda {
namespace {

constexpr std::int64_t kUnit = 16;  // where parts begin
constexpr std::int64_t kFirstBytes = 1 << 16;

static_assert(sizeof(SeenToken) == sizeof(TokenCount) && sizeof(BiasedToken) == sizeof(LogitBias));

bool penalises(const SampleRow& row) {
  return ft::penalises(*row.sampler) && (!row.history.empty() || row.drafts.count > 0);
}

/// Rows of one slot show the same history.
bool shares_history(std::span<const SampleRow> rows, std::size_t row) {
  return row > 0 && penalises(rows[row - 1]) && rows[row].history.data() == rows[row - 1].history.data() &&
         rows[row].history.size() == rows[row - 1].history.size();
}

/// Appends to a part that lies in the memory of the host.
template <class To, class From>
void append(To* part, int& count, std::span<const From> entries) {
  if (!entries.empty()) std::memcpy(part + count, entries.data(), entries.size_bytes());
  count += static_cast<int>(entries.size());
}

}  // namespace

bool adjusts(const SampleRow& row) { return !row.mask.empty() || !row.bias.empty() || penalises(row); }

SamplePlace place_of(const SampleRow& row) {
  const SamplingParams& sampler = *row.sampler;
  return {sampler.seed,  row.position,  sampler.temperature,          sampler.top_p,
          sampler.min_p, sampler.top_k, static_cast<int>(row.stream), row.store};
}

/// Where `bytes` are free.
std::int64_t SampleMemory::room_for(std::int64_t bytes) {
  if (used_ + bytes > static_cast<std::int64_t>(host_.bytes())) {
    device_->wait();
    used_ = 0;
  }
  if (bytes > static_cast<std::int64_t>(host_.bytes())) {
    const auto wanted = std::bit_ceil(static_cast<std::uint64_t>(std::max(2 * bytes, kFirstBytes)));
    host_ = {}, memory_ = {};
    host_ = HostMemory(device_, wanted), memory_ = Memory(device_, wanted);
    if (host_.empty() || memory_.empty()) {
      host_ = {}, memory_ = {};
      throw DeviceError(no_memory(*device_, "histories, biases and masks of a step",
                                  static_cast<std::int64_t>(wanted), "use fewer slots")
                            .message);
    }
  }
  const std::int64_t at = used_;
  used_ += bytes;
  return at;
}

SamplePlaces SampleMemory::fill(std::span<const SampleRow> rows) {
  std::int64_t seen = 0, biased = 0, words = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (penalises(rows[i]) && !shares_history(rows, i)) seen += std::ssize(rows[i].history);
    biased += std::ssize(rows[i].bias), words += std::ssize(rows[i].mask);
  }
  std::int64_t bytes = 0;
  const auto take = [&](std::int64_t count, std::size_t size) {
    const std::int64_t at = bytes;
    bytes += round_up(count * static_cast<std::int64_t>(size), kUnit);
    return at;
  };
  const std::int64_t samples_at = take(std::ssize(rows), sizeof(SamplePlace));
  const std::int64_t rows_at = take(std::ssize(rows), sizeof(AdjustPlace));
  const std::int64_t seen_at = take(seen, sizeof(SeenToken)), biased_at = take(biased, sizeof(BiasedToken));
  const std::int64_t words_at = take(words, sizeof(std::uint32_t));
  const std::int64_t base = room_for(bytes);
  std::ranges::transform(rows, host_.at<SamplePlace>(base + samples_at), place_of);
  int seen_count = 0, biased_count = 0, word_count = 0;
  auto* to = host_.at<AdjustPlace>(base + rows_at);
  for (std::size_t i = 0; i < rows.size(); ++i, ++to) {
    const SampleRow& row = rows[i];
    const SamplingParams& sampler = *row.sampler;
    *to = {};
    to->penalised = penalises(row) ? 1 : 0;
    to->repetition = sampler.repetition;
    to->presence = sampler.presence, to->frequency = sampler.frequency;
    if (shares_history(rows, i)) {
      to->first_seen = to[-1].first_seen;
    } else {
      to->first_seen = seen_count;
      if (penalises(row)) append(host_.at<SeenToken>(base + seen_at), seen_count, row.history);
    }
    to->seen = static_cast<int>(row.history.size());
    to->first_draft = row.drafts.first, to->drafts = row.drafts.count;
    to->first_biased = biased_count, to->biased = static_cast<int>(row.bias.size());
    append(host_.at<BiasedToken>(base + biased_at), biased_count, row.bias);
    to->first_word = word_count, to->words = static_cast<int>(row.mask.size());
    append(host_.at<unsigned int>(base + words_at), word_count, row.mask);
  }
  device_->copy_in(memory_.at(base), host_.at(base), static_cast<std::size_t>(bytes));
  SamplePlaces places;
  places.samples = memory_.at<SamplePlace>(base + samples_at);
  if (std::ranges::any_of(rows, adjusts)) places.rows = memory_.at<AdjustPlace>(base + rows_at);
  places.seen = memory_.at<SeenToken>(base + seen_at);
  places.biased = memory_.at<BiasedToken>(base + biased_at);
  places.words = memory_.at<unsigned int>(base + words_at);
  return places;
}

}  // namespace ft::cuda
