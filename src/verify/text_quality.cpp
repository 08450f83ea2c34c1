#include "verify/text_quality.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

namespace ft {
namespace {

constexpr std::size_t kLikeliest = 64;
constexpr int kChunk = 64;          // logit rows per step
constexpr double kMinRest = 1e-12;  // probability of all other tokens together

/// Calls `row(window, position, logits)` for every position of every window.
Status each_row(Backend& backend, const Model& model, const std::vector<std::vector<std::int32_t>>& windows,
                const std::function<void(std::size_t, std::size_t, std::span<const float>)>& row) {
  DecoderOptions options;
  options.context = 1;
  for (const auto& window : windows)
    options.context = std::max(options.context, static_cast<std::int64_t>(window.size()));
  options.prefill_chunk = kChunk, options.logit_rows = kChunk;
  FT_ASSIGN(const std::unique_ptr<Decoder> decoder, Decoder::make(backend, model, options));
  for (std::size_t w = 0; w < windows.size(); ++w) {
    FT_TRY(decoder->score(windows[w], kChunk, [&](std::int64_t at, std::span<const float> logits) {
      row(w, static_cast<std::size_t>(at), logits);
    }));
  }
  return {};
}

}  // namespace

double logsumexp(std::span<const float> logits, float highest) {
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - static_cast<double>(highest));
  return static_cast<double>(highest) + std::log(sum);
}

TextMeter::TextMeter(std::span<const std::int32_t> ids, std::int64_t most, std::int64_t window) {
  const std::size_t end = std::min(ids.size(), static_cast<std::size_t>(most));
  for (std::size_t at = 0; at + 1 < end; at += static_cast<std::size_t>(window)) {
    const auto part = ids.subspan(at, std::min(static_cast<std::size_t>(window), end - at));
    windows_.emplace_back(part.begin(), part.end());
  }
}

std::int64_t TextMeter::tokens() const {
  std::int64_t sum = 0;
  for (const auto& window : windows_) sum += static_cast<std::int64_t>(window.size());
  return sum;
}

double TextMeter::divergence(const Prediction& wanted, std::span<const float> logits, double logsumexp) {
  double sum = 0, p_rest = 1, q_rest = 1;
  for (std::size_t i = 0; i < wanted.tokens.size(); ++i) {
    const double log_p = wanted.log_probabilities[i];
    const double log_q = static_cast<double>(logits[static_cast<std::size_t>(wanted.tokens[i])]) - logsumexp;
    sum += std::exp(log_p) * (log_p - log_q);
    p_rest -= std::exp(log_p), q_rest -= std::exp(log_q);
  }
  p_rest = std::max(p_rest, kMinRest), q_rest = std::max(q_rest, kMinRest);
  return sum + p_rest * (std::log(p_rest) - std::log(q_rest));
}

Result<TextQuality> TextMeter::take_reference(Backend& backend, const Model& model) {
  reference_.clear();
  std::vector<std::int32_t> order;
  FT_TRY(each_row(backend, model, windows_, [&](std::size_t, std::size_t, std::span<const float> logits) {
    order.resize(logits.size());
    std::iota(order.begin(), order.end(), 0);
    const auto count = static_cast<std::ptrdiff_t>(std::min(kLikeliest, order.size()));
    std::partial_sort(order.begin(), order.begin() + count, order.end(), [&](std::int32_t a, std::int32_t b) {
      const float x = logits[static_cast<std::size_t>(a)], y = logits[static_cast<std::size_t>(b)];
      return x > y || (x == y && a < b);
    });
    const double all = logsumexp(logits, logits[static_cast<std::size_t>(order.front())]);
    Prediction prediction;
    for (std::ptrdiff_t i = 0; i < count; ++i) {
      const std::int32_t token = order[static_cast<std::size_t>(i)];
      prediction.tokens.push_back(token);
      prediction.log_probabilities.push_back(static_cast<double>(logits[static_cast<std::size_t>(token)]) -
                                             all);
    }
    reference_.push_back(std::move(prediction));
  }));
  return measure(backend, model);
}

Result<TextQuality> TextMeter::measure(Backend& backend, const Model& model) const {
  TextQuality found;
  double likelihood = 0, divergences = 0;
  std::size_t row = 0;
  FT_TRY(
      each_row(backend, model, windows_, [&](std::size_t w, std::size_t at, std::span<const float> logits) {
        const double all = logsumexp(logits, *std::ranges::max_element(logits));
        if (row < reference_.size()) divergences += divergence(reference_[row], logits, all);
        ++row;
        if (at + 1 == windows_[w].size()) return;
        likelihood += static_cast<double>(logits[static_cast<std::size_t>(windows_[w][at + 1])]) - all;
        ++found.tokens;
      }));
  if (found.tokens > 0) found.perplexity = std::exp(-likelihood / static_cast<double>(found.tokens));
  if (row > 0) found.divergence = divergences / static_cast<double>(row);
  return found;
}

}  // namespace ft
