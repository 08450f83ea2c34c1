// The sampling parameters that a model's generation_config.json suggests; requests may replace each.
#pragma once

#include "format/key_reader.h"
#include "program/sampling_params.h"

namespace ft {

/// Greedy if do_sample is false, or if neither do_sample nor a temperature is given. `generation` has the
/// errors.
SamplingParams read_sampling_defaults(format::KeyReader& generation);

}  // namespace ft
