#include "cli/commands/sampling_options.h"

#include <fmt/format.h>

namespace ft::cli {

SamplingParams choose_sampler(const SamplingOptions& asked, const format::SamplingDefaults& defaults) {
  SamplingParams sampler;
  sampler.seed = asked.seed;
  const bool greedy = defaults.do_sample == false;
  // Hugging Face's default is temperature 1 once do_sample is on.
  const float otherwise = defaults.do_sample == true ? 1.0F : 0.0F;
  const float own = greedy ? 0.0F : static_cast<float>(defaults.temperature.value_or(otherwise));
  sampler.temperature = asked.temperature.value_or(own);
  sampler.top_k = asked.top_k.value_or(greedy ? 0 : defaults.top_k.value_or(0));
  sampler.top_p = asked.top_p.value_or(greedy ? 1.0F : static_cast<float>(defaults.top_p.value_or(1)));
  sampler.min_p = asked.min_p.value_or(greedy ? 0.0F : static_cast<float>(defaults.min_p.value_or(0)));
  sampler.repetition = asked.repetition.value_or(static_cast<float>(defaults.repetition_penalty.value_or(1)));
  sampler.presence = asked.presence.value_or(0.0F);
  sampler.frequency = asked.frequency.value_or(0.0F);
  return sampler;
}

std::string sampler_text(const SamplingParams& sampler) {
  std::string text = "greedy";
  if (sampler.temperature > 0) {
    text = fmt::format("temperature {:g}", sampler.temperature);
    if (sampler.top_k > 0) text += fmt::format(", top-k {}", sampler.top_k);
    if (sampler.top_p < 1) text += fmt::format(", top-p {:g}", sampler.top_p);
    if (sampler.min_p > 0) text += fmt::format(", min-p {:g}", sampler.min_p);
    text += fmt::format(", seed {}", sampler.seed);
  }
  if (sampler.repetition != 1) text += fmt::format(", repetition {:g}", sampler.repetition);
  if (sampler.presence != 0) text += fmt::format(", presence {:g}", sampler.presence);
  if (sampler.frequency != 0) text += fmt::format(", frequency {:g}", sampler.frequency);
  return text;
}

}  // namespace ft::cli
