// Endpoints that describe the server: /v1/models in both dialects, /props, /v1/tokenize, and /v1/detokenize.
// An unknown model is kNotFound; an invalid field is kInvalid and is named.
#pragma once

#include <string>
#include <vector>

#include "api/http_response.h"
#include "api/model_info.h"
#include "base/result.h"
#include "sched/engine_status.h"

namespace ft::api {

inline constexpr int kDefaultModels = 20, kMaxModels = 1000;  // per page

/// The page of Anthropic's listing that the client requests; an empty member was not given.
struct Page {
  std::string limit, after_id, before_id;
};
/// [begin, end) of the ids, and whether more follow in the direction of reading.
struct PageRange {
  std::size_t begin = 0, end = 0;
  bool more = false;
};
Result<PageRange> range_of(const Page& page, const std::vector<std::string>& ids);
/// "2026-01-31T12:00:00Z"
std::string iso_time(std::int64_t seconds);

/// OpenAI's listing has no pages. Errors name limit, after_id or before_id.
Result<HttpResponse> models_reply(const ModelInfo& model_info, Dialect dialect, const Page& page = {});
Result<HttpResponse> model_reply(const ModelInfo& model_info, const std::string& id, Dialect dialect);
HttpResponse props_reply(const ModelInfo& model_info);
/// {enabled, snapshots, sessions, size, ...}, without fields that one owner may not see; `cleared` reports
/// that the cache was emptied.
HttpResponse cache_reply(const CacheReport& cache, bool cleared);
HttpResponse cancelled_reply(const std::string& id);
/// {text} or {messages, tools} -> {tokens, count}
Result<HttpResponse> tokenize_reply(const ModelInfo& model_info, std::string_view body);
/// {tokens} -> {text}
Result<HttpResponse> detokenize_reply(const ModelInfo& model_info, std::string_view body);

}  // namespace ft::api
