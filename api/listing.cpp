#include "api/listing.h"

#include <algorithm>
#include <charconv>
#include <ctime>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "api/chat_request.h"
#include "api/encoding.h"
#include "api/fields.h"
#include "api/prepare.h"

namespace ft::api {
namespace {

std::string iso_time(std::int64_t seconds) {
  const auto time = static_cast<std::time_t>(seconds);
  std::tm parts{};
  ::gmtime_r(&time, &parts);
  char text[32];
  const std::size_t size = std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return {text, size};
}

Json openai_model(const Served& served, const std::string& id) {
  return Json{
      {"id", id},
      {"object", "model"},
      {"created", served.created_s},
      {"owned_by", "foretoken"},
      {"max_model_len", served.context},
      {"context_length", served.context},
      {"context_window", served.context},
      {"max_context_now", served.context},
      {"supports_vision", false},
      {"modalities", Json::array({"text"})},
      {"meta", {{"n_ctx_train", served.positions}, {"n_params", served.parameters}, {"size", served.bytes}}}};
}

Json anthropic_model(const Served& served, const std::string& id) {
  return Json{{"type", "model"},
              {"id", id},
              {"display_name", id},
              {"created_at", iso_time(served.created_s)},
              {"lifecycle", "active"},
              {"max_input_tokens", served.context},
              {"max_tokens", served.context}};
}

/// Of the list of models: [begin, end), and whether there are more in the direction of reading.
struct Range {
  std::size_t begin = 0, end = 0;
  bool more = false;
};

Result<Range> range_of(const Page& page, const std::vector<std::string>& ids) {
  std::size_t limit = kDefaultModels;
  if (!page.limit.empty()) {
    int asked = 0;
    const char* last = page.limit.data() + page.limit.size();
    const auto [end, error] = std::from_chars(page.limit.data(), last, asked);
    if (error != std::errc() || end != last || asked < 1 || asked > kMaxModels) {
      return wrong("limit", fmt::format("must be 1 to {}, found \"{}\"", kMaxModels, page.limit));
    }
    limit = static_cast<std::size_t>(asked);
  }
  const bool backwards = !page.before_id.empty();
  if (backwards && !page.after_id.empty()) return wrong("before_id", "cannot stand beside after_id");
  const std::string& id = backwards ? page.before_id : page.after_id;
  const auto at = std::find(ids.begin(), ids.end(), id);
  if (!id.empty() && at == ids.end()) {
    return wrong(backwards ? "before_id" : "after_id", fmt::format("no model \"{}\" is listed here", id));
  }
  const auto place = static_cast<std::size_t>(at - ids.begin());
  if (backwards) return Range{place - std::min(place, limit), place, place > limit};
  const std::size_t begin = id.empty() ? 0 : place + 1;
  const std::size_t end = std::min(ids.size(), begin + limit);
  return Range{begin, end, end < ids.size()};
}

Reply json_reply(const Json& json) {
  Reply reply;
  reply.body = dump(json);
  return reply;
}

}  // namespace

Result<Reply> models_reply(const Served& served, Dialect dialect, const Page& page) {
  std::vector<std::string> ids{served.id};
  ids.insert(ids.end(), served.aliases.begin(), served.aliases.end());
  Json list = Json::array();
  if (dialect == Dialect::kOpenAi) {
    for (const std::string& id : ids) list.push_back(openai_model(served, id));
    return json_reply(Json{{"object", "list"}, {"data", std::move(list)}});
  }
  FT_ASSIGN(const Range range, range_of(page, ids));
  for (std::size_t i = range.begin; i < range.end; ++i) list.push_back(anthropic_model(served, ids[i]));
  const bool none = range.begin == range.end;
  return json_reply(Json{{"data", std::move(list)},
                         {"has_more", range.more},
                         {"first_id", none ? Json() : Json(ids[range.begin])},
                         {"last_id", none ? Json() : Json(ids[range.end - 1])}});
}

Result<Reply> model_reply(const Served& served, const std::string& id, Dialect dialect) {
  FT_TRY(check_model(served, id));
  return json_reply(dialect == Dialect::kOpenAi ? openai_model(served, id) : anthropic_model(served, id));
}

Reply props_reply(const Served& served) {
  return json_reply(
      Json{{"model", served.id},
           {"aliases", served.aliases},
           {"family", served.family},
           {"quantisation", served.quantisation},
           {"backend", served.backend},
           {"drafter", served.drafter},
           {"drafter_problem", served.drafter_problem.empty() ? Json() : Json(served.drafter_problem)},
           {"draft_vocabulary", served.draft_vocabulary},
           {"depth", served.default_depth < 0 ? Json("auto") : Json(served.default_depth)},
           {"context", served.context},
           {"slots", served.slots},
           {"parameters", served.parameters},
           {"bytes", served.bytes},
           {"sampling",
            {{"temperature", served.sampler.temperature},
             {"top_k", served.sampler.top_k},
             {"top_p", served.sampler.top_p},
             {"min_p", served.sampler.min_p}}},
           {"version", served.version}});
}

Reply cache_reply(const CacheReport& cache, bool cleared) {
  Json json{{"enabled", cache.enabled}, {"sessions", cache.sessions},         {"snapshots", cache.snapshots},
            {"size", cache.bytes},      {"limit", cache.limit_bytes},         {"lookups", cache.lookups},
            {"hits", cache.hits},       {"tokens_saved", cache.tokens_saved}, {"stored", cache.stored},
            {"evicted", cache.evicted}};
  if (cache.disk) {
    json["disk"] =
        Json{{"files", cache.disk_files}, {"size", cache.disk_bytes},      {"limit", cache.disk_limit_bytes},
             {"hits", cache.disk_hits},   {"written", cache.disk_written}, {"dropped", cache.disk_dropped}};
  }
  if (cleared) json["cleared"] = true;
  return json_reply(json);
}

Reply cancelled_reply(const std::string& id) { return json_reply(Json{{"id", id}, {"cancelled", true}}); }

Result<Reply> tokenize_reply(const Served& served, std::string_view body) {
  FT_ASSIGN(const Json json, parse_body(body));
  const Fields fields(json, "");
  std::vector<std::int32_t> ids;
  if (fields.find("messages") != nullptr) {
    FT_ASSIGN(const Call call, read_chat(json));
    FT_ASSIGN(ids, prompt_of(served, call));
  } else {
    FT_ASSIGN(const auto text, fields.text("text"));
    if (!text) return wrong("text", "is missing; send {\"text\": ...} or {\"messages\": [...]}");
    FT_ASSIGN(ids, encode_within(served, *text, false, {"the text", "text"}));
  }
  return json_reply(Json{{"tokens", ids}, {"count", ids.size()}});
}

Result<Reply> detokenize_reply(const Served& served, std::string_view body) {
  FT_ASSIGN(const Json json, parse_body(body));
  FT_ASSIGN(const Json* tokens, Fields(json, "").array("tokens", std::size_t{1} << 24));
  if (tokens == nullptr) return wrong("tokens", "is missing; send {\"tokens\": [1, 2]}");
  std::vector<std::int32_t> ids;
  for (std::size_t i = 0; i < tokens->size(); ++i) {
    const Json& token = (*tokens)[i];
    const bool good = token.is_number_integer() && token.get<std::int64_t>() >= 0 &&
                      token.get<std::int64_t>() < served.vocabulary;
    if (!good) {
      return wrong(fmt::format("tokens[{}]", i),
                   fmt::format("must be a token id below {}, found {}", served.vocabulary, kind_of(token)));
    }
    ids.push_back(token.get<std::int32_t>());
  }
  return json_reply(Json{{"text", served.tokenizer->decode(ids, false)}});
}

}  // namespace ft::api
