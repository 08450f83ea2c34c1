// What a server says of itself: /v1/models in both dialects, /props, /v1/tokenize and /v1/detokenize.
// Pure. Thread: any. Errors: kNotFound for an unknown model; kInvalid naming the field.
#pragma once

#include "api/http_response.h"
#include "api/model_info.h"
#include "base/result.h"
#include "sched/engine_status.h"

namespace ft::api {

inline constexpr int kDefaultModels = 20, kMaxModels = 1000;  // of a page

/// A part of Anthropic's listing, as its client asks for it; empty: not asked for.
struct Page {
  std::string limit, after_id, before_id;
};
/// OpenAI's listing has no pages. Errors name limit, after_id or before_id.
Result<HttpResponse> models_reply(const ModelInfo& model_info, Dialect dialect, const Page& page = {});
Result<HttpResponse> model_reply(const ModelInfo& model_info, const std::string& id, Dialect dialect);
HttpResponse props_reply(const ModelInfo& model_info);
/// {enabled, snapshots, sessions, bytes, ...}; `cleared`: says that it was emptied.
HttpResponse cache_reply(const CacheReport& cache, bool cleared);
HttpResponse cancelled_reply(const std::string& id);
/// {text} or {messages, tools} -> {tokens, count}
Result<HttpResponse> tokenize_reply(const ModelInfo& model_info, std::string_view body);
/// {tokens} -> {text}
Result<HttpResponse> detokenize_reply(const ModelInfo& model_info, std::string_view body);

}  // namespace ft::api
