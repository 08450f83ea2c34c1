// The sampling parameters of a request: from flags, else from the model's generation_config.json, else
// greedy.
#pragma once

#include "cli/args/options.h"
#include "format/generation_config.h"

namespace ft::cli {

/// do_sample false or a missing temperature means greedy.
SamplingParams choose_sampler(const SamplingOptions& asked, const format::SamplingDefaults& defaults);
/// "greedy", or "temperature 0.6, top-k 20, top-p 0.95, seed 0" for reports.
std::string sampler_text(const SamplingParams& sampler);

}  // namespace ft::cli
