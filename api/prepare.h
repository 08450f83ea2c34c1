// From a call to the engine's requests: model name, template, tokens, limits, defaults. One request a prompt
// and choice; choice i of a seed s draws with seed s + i, so that each equals a lone call with that seed.
// Thread: any, several at once (the server's text pool). Cost: rendering and encoding, linear in the prompt.
// Errors: kNotFound for a model that is not served; kTooLong for a prompt beyond the context; kInvalid and
// kUnsupported with the field.
#pragma once

#include "api/generate_params.h"
#include "api/model_info.h"
#include "sched/request.h"

namespace ft::api {

struct Prepared {
  std::vector<Request> requests;
  std::vector<int> prompt_tokens;  // of each
};

/// `random_seed` is used where the call names none.
Result<Prepared> prepare(const ModelInfo& model_info, const GenerateParams& call, std::uint64_t random_seed);

/// The prompt alone, for counting: what prepare() would send to the engine.
Result<std::vector<std::int32_t>> prompt_of(const ModelInfo& model_info, const GenerateParams& call);

/// kNotFound unless `model` is empty, the model's id or one of its names.
Status check_model(const ModelInfo& model_info, const std::string& model);

}  // namespace ft::api
