#include "models/sampling_defaults.h"

#include <algorithm>

namespace ft {
namespace {

std::optional<float> read(format::KeyReader& generation, const SamplingNumber<float>& number) {
  const auto low = static_cast<double>(number.low), high = static_cast<double>(number.high);
  const std::optional<double> found = generation.optional_real(number.name, low, high);
  if (!found) return std::nullopt;
  const auto value = static_cast<float>(*found);
  return number.takes(value) ? value : kNearlyNone;
}

std::optional<int> read(format::KeyReader& generation, const SamplingNumber<int>& number) {
  const std::optional<int> found = generation.optional_whole(number.name, -1, number.high);
  return found ? std::optional<int>(std::max(0, *found)) : std::nullopt;  // -1 and 0 mean no limit
}

}  // namespace

SamplingParams read_sampling_defaults(format::KeyReader& generation) {
  const std::optional<bool> samples = generation.optional_flag("do_sample");
  AskedSampling suggested;
  if (samples == true) suggested.temperature = 1;  // Hugging Face's default
  const bool greedy = samples == false;
  each_sampling_number([&](const auto& number) {
    const auto found = read(generation, number);
    if (found && (number.penalty || !greedy)) suggested.*number.asked = found;
  });
  return chosen(suggested, {});
}

}  // namespace ft
