// The sampling parameters of a request: from flags, else from the model's generation_config.json, else
// greedy.
#pragma once

#include "cli/options.h"
#include "format/generation_config.h"

namespace ft::cli {

/// do_sample false or a missing temperature means greedy.
Sampler choose_sampler(const SamplingChoice& asked, const format::SamplingDefaults& defaults);
/// "greedy", or "temperature 0.6, top-k 20, top-p 0.95, seed 0" for reports.
std::string sampler_text(const Sampler& sampler);

}  // namespace ft::cli
