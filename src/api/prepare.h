// Converts GenerateParams to engine requests: model name, template, tokens, limits, defaults. Each prompt and
// choice is one request. Choice i of seed s uses seed s + i, so that it equals a single request with that
// seed. Several threads may call these functions at once. Errors: kNotFound for an unknown model, kTooLong
// for a prompt beyond the context, kInvalid and kUnsupported with the field.
#pragma once

#include "api/caller.h"
#include "api/generate_params.h"
#include "api/model_info.h"
#include "sched/request.h"

namespace ft::api {

struct Prepared {
  std::vector<Request> requests;
  std::vector<int> prompt_tokens;  // per prompt
};

/// `random_seed` applies if the parameters have no seed. `caller`: ResponseMeta's.
Result<Prepared> prepare(const ModelInfo& model_info, const GenerateParams& call, std::uint64_t random_seed,
                         const Caller& caller = {});

/// The prompt's tokens as prepare() sends them to the engine, for counting.
Result<std::vector<std::int32_t>> prompt_of(const ModelInfo& model_info, const GenerateParams& call);

/// kNotFound unless `model` is empty, the model's id, or an alias.
Status check_model(const ModelInfo& model_info, const std::string& model);

}  // namespace ft::api
