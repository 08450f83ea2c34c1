// Which sampling parameters a request gets: what was asked for, else the model's generation_config.json, else
// greedy. Pure. Thread: any. Errors: none; ranges were checked by the flags and are again by Request::make.
#pragma once

#include "cli/options.h"
#include "format/config.h"

namespace ft::cli {

/// do_sample false, or no temperature at all, is greedy.
Sampler choose_sampler(const SamplingChoice& asked, const format::SamplingDefaults& defaults);
/// "greedy", or "temperature 0.6, top-k 20, top-p 0.95, seed 0" for reports.
std::string sampler_text(const Sampler& sampler);

}  // namespace ft::cli
