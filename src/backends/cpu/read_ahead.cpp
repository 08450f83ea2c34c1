#include "backends/cpu/read_ahead.h"

#include <utility>

namespace ft::cpu {

void ReadAhead::plan(std::vector<Weights> weights, int workers) {
  weights_ = std::move(weights);
  places_.assign(static_cast<std::size_t>(workers), {});
  next_.assign(weights_.size(), weights_.size());
  for (std::size_t i = weights_.size(); i-- > 1;) next_[i - 1] = weights_[i].empty() ? next_[i] : i;
}

bool ReadAhead::fetch(std::size_t operation, int worker, int workers) {
  constexpr std::int64_t kLine = 64, kLines = 4;
  const std::size_t next = next_[operation];
  if (next == weights_.size()) return false;
  Place& place = places_[static_cast<std::size_t>(worker)];
  if (place.operation != next) place = {next, 0, 0, kMaxBytes};
  const Weights& weights = weights_[next];
  if (place.left <= 0 || place.weight == weights.size()) return false;
  const Packed& weight = *weights[place.weight];
  const std::int64_t begin = weight.first_block(worker, workers) * weight.block_bytes;
  const std::int64_t bytes = weight.first_block(worker + 1, workers) * weight.block_bytes - begin;
  for (std::int64_t line = 0; line < kLines; ++line) {
    constexpr int kRead = 0, kSecondCache = 2;
    __builtin_prefetch(weight.data + begin + place.at + line * kLine, kRead, kSecondCache);
  }
  place.at += kLines * kLine, place.left -= kLines * kLine;
  if (place.at >= bytes) place.at = 0, ++place.weight;
  return true;
}

}  // namespace ft::cpu
