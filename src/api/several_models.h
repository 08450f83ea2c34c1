// Answers that the server of several models gives itself: the model that a body names, and /v1/models for all
// models in both dialects. Errors as in api/listing.h.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "api/http_response.h"
#include "api/listing.h"
#include "base/result.h"

namespace ft::api {

struct ListedModel {
  std::string id;
  std::string state;              // "unloaded", "loading", "ready", "stopping"
  std::string facts;              // its entry in its process's listing, as JSON; empty: not loaded yet
  std::int64_t memory_bytes = 0;  // while loaded; 0: unknown
  int answering = 0, waiting = 0;
  std::int64_t created_s = 0;
  std::string problem;  // of its last load
};

/// The member `model` of a body; empty if it is absent. kInvalid for a body that is not a JSON object.
Result<std::string> model_asked(std::string_view body);

Result<HttpResponse> models_reply(std::span<const ListedModel> models, Dialect dialect, const Page& page);
HttpResponse model_reply(const ListedModel& model, Dialect dialect);
/// {"status": "ready", "models": [{id, state, memory, answering, waiting}]}
HttpResponse health_reply(std::span<const ListedModel> models);
/// /props while no model is loaded: the known facts of the default model.
HttpResponse props_reply(const ListedModel& model, const std::string& version);
/// The answer of /load and /unload.
HttpResponse model_state_reply(const ListedModel& model);

}  // namespace ft::api
