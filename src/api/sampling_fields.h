// Request fields that OpenAI's dialects share, and foretoken's own: sampling, stops, bias, speculation.
// Errors are kInvalid and name the field.
#pragma once

#include "api/fields.h"
#include "api/generate_params.h"

namespace ft::api {

/// The numbers of program/sampling_params.h and the seed, in every dialect. A top_k of -1 means all, if
/// `min_top_k` allows it.
Status read_sampling_numbers(const Fields& fields, GenerateParams& call, float max_temperature,
                             int min_top_k);
/// These, logit_bias, stop and n.
Status read_sampling(const Fields& fields, GenerateParams& call);
/// speculation, acceptance, depth, drafter, stream, stream_options, stream_speculation.
Status read_speculation(const Fields& fields, GenerateParams& call);
/// A text or a list of up to kMaxStops texts, each up to kMaxStopBytes.
Result<std::vector<std::string>> read_stops(const Fields& fields, std::string_view name);

}  // namespace ft::api
