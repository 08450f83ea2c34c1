// What a server says of itself: /v1/models in both dialects, /props, /v1/tokenize and /v1/detokenize.
// Pure. Thread: any. Errors: kNotFound for an unknown model; kInvalid naming the field.
#pragma once

#include "api/reply.h"
#include "api/served.h"
#include "base/result.h"
#include "sched/engine_status.h"

namespace ft::api {

inline constexpr int kDefaultModels = 20, kMaxModels = 1000;  // of a page

/// A part of Anthropic's listing, as its client asks for it; empty: not asked for.
struct Page {
  std::string limit, after_id, before_id;
};
/// OpenAI's listing has no pages. Errors name limit, after_id or before_id.
Result<Reply> models_reply(const Served& served, Dialect dialect, const Page& page = {});
Result<Reply> model_reply(const Served& served, const std::string& id, Dialect dialect);
Reply props_reply(const Served& served);
/// {enabled, snapshots, sessions, bytes, ...}; `cleared`: says that it was emptied.
Reply cache_reply(const CacheReport& cache, bool cleared);
Reply cancelled_reply(const std::string& id);
/// {text} or {messages, tools} -> {tokens, count}
Result<Reply> tokenize_reply(const Served& served, std::string_view body);
/// {tokens} -> {text}
Result<Reply> detokenize_reply(const Served& served, std::string_view body);

}  // namespace ft::api
