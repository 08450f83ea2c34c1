// Request fields that OpenAI's dialects share, and foretoken's own: sampling, stops, bias, speculation.
// Errors are kInvalid and name the field.
#pragma once

#include "api/fields.h"
#include "api/generate_params.h"

namespace ft::api {

/// Fields of every dialect: temperature from 0 to `max_temperature`, top_p, top_k (-1: all, if `min_top_k`
/// allows it), seed.
Status read_noise(const Fields& fields, GenerateParams& call, double max_temperature, int min_top_k);
/// temperature, top_p, top_k, min_p, penalties, seed, logit_bias, stop, n.
Status read_sampling(const Fields& fields, GenerateParams& call);
/// speculation, acceptance, depth, drafter, stream, stream_options, stream_speculation.
Status read_speculation(const Fields& fields, GenerateParams& call);
/// A text or a list of up to kMaxStops texts, each up to kMaxStopBytes.
Result<std::vector<std::string>> read_stops(const Fields& fields, std::string_view name);
/// reasoning_effort as a switch: "none" is off, any other value is on.
std::optional<bool> thinks_at(const std::string& effort);

}  // namespace ft::api
