#include "api/listing.h"

#include <algorithm>
#include <charconv>
#include <ctime>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "api/encoding.h"
#include "api/fields.h"
#include "api/openai/chat_request.h"
#include "api/prepare.h"

namespace ft::api {
namespace {

Json modalities(const ModelInfo& model_info) {
  Json list = Json::array({"text"});
  if (model_info.images.problem.empty()) list.push_back("image");
  return list;
}

Json sampling(const SamplingParams& sampler) {
  Json numbers;
  each_sampling_number([&](const auto& number) { numbers[number.name] = sampler.*number.value; });
  return numbers;
}

Json openai_model(const ModelInfo& model_info, const std::string& id) {
  return Json{{"id", id},
              {"object", "model"},
              {"created", model_info.created_s},
              {"owned_by", "foretoken"},
              {"max_model_len", model_info.context},
              {"context_length", model_info.context},
              {"context_window", model_info.context},
              {"max_context_now", model_info.context},
              {"supports_vision", model_info.images.problem.empty()},
              {"modalities", modalities(model_info)},
              {"meta",
               {{"n_ctx_train", model_info.positions},
                {"n_params", model_info.parameters},
                {"size", model_info.bytes}}}};
}

Json anthropic_model(const ModelInfo& model_info, const std::string& id) {
  return Json{{"type", "model"},
              {"id", id},
              {"display_name", id},
              {"created_at", iso_time(model_info.created_s)},
              {"lifecycle", "active"},
              {"max_input_tokens", model_info.context},
              {"max_tokens", model_info.context}};
}

HttpResponse json_reply(const Json& json) {
  HttpResponse reply;
  reply.body = dump(json);
  return reply;
}

}  // namespace

std::string iso_time(std::int64_t seconds) {
  const auto time = static_cast<std::time_t>(seconds);
  std::tm parts{};
  ::gmtime_r(&time, &parts);
  char text[32];
  const std::size_t size = std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return {text, size};
}

Result<PageRange> range_of(const Page& page, const std::vector<std::string>& ids) {
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
  if (backwards && !page.after_id.empty())
    return wrong("before_id", "cannot be combined with after_id; send only one of them");
  const std::string& id = backwards ? page.before_id : page.after_id;
  const auto at = std::find(ids.begin(), ids.end(), id);
  if (!id.empty() && at == ids.end()) {
    return wrong(backwards ? "before_id" : "after_id", fmt::format("there is no model \"{}\"", id));
  }
  const auto place = static_cast<std::size_t>(at - ids.begin());
  if (backwards) return PageRange{place - std::min(place, limit), place, place > limit};
  const std::size_t begin = id.empty() ? 0 : place + 1;
  const std::size_t end = std::min(ids.size(), begin + limit);
  return PageRange{begin, end, end < ids.size()};
}

Result<HttpResponse> models_reply(const ModelInfo& model_info, Dialect dialect, const Page& page) {
  std::vector<std::string> ids{model_info.id};
  ids.insert(ids.end(), model_info.aliases.begin(), model_info.aliases.end());
  Json list = Json::array();
  if (dialect == Dialect::kOpenAi) {
    for (const std::string& id : ids) list.push_back(openai_model(model_info, id));
    return json_reply(Json{{"object", "list"}, {"data", std::move(list)}});
  }
  FT_ASSIGN(const PageRange range, range_of(page, ids));
  for (std::size_t i = range.begin; i < range.end; ++i) list.push_back(anthropic_model(model_info, ids[i]));
  const bool none = range.begin == range.end;
  return json_reply(Json{{"data", std::move(list)},
                         {"has_more", range.more},
                         {"first_id", none ? Json() : Json(ids[range.begin])},
                         {"last_id", none ? Json() : Json(ids[range.end - 1])}});
}

Result<HttpResponse> model_reply(const ModelInfo& model_info, const std::string& id, Dialect dialect) {
  FT_TRY(check_model(model_info, id));
  return json_reply(dialect == Dialect::kOpenAi ? openai_model(model_info, id)
                                                : anthropic_model(model_info, id));
}

HttpResponse props_reply(const ModelInfo& model_info) {
  return json_reply(Json{
      {"model", model_info.id},
      {"aliases", model_info.aliases},
      {"family", model_info.family},
      {"quantisation", model_info.quantisation},
      {"backend", model_info.backend},
      {"backend_problem", model_info.backend_problem.empty() ? Json() : Json(model_info.backend_problem)},
      {"drafter", model_info.drafter},
      {"drafter_problem", model_info.drafter_problem.empty() ? Json() : Json(model_info.drafter_problem)},
      {"draft_vocabulary", model_info.draft_vocabulary},
      {"depth", model_info.default_depth < 0 ? Json("auto") : Json(model_info.default_depth)},
      {"context", model_info.context},
      {"modalities", modalities(model_info)},
      {"max_pixels", model_info.images.max_pixels},
      {"image_urls", model_info.images.fetch != nullptr},
      {"slots", model_info.slots},
      {"parameters", model_info.parameters},
      {"bytes", model_info.bytes},
      {"sampling", sampling(model_info.sampler)},
      {"version", model_info.version}});
}

namespace {

Json tier_json(const CacheTierReport& tier) {
  return {{"files", tier.files}, {"size", tier.bytes},      {"limit", tier.limit_bytes},
          {"hits", tier.hits},   {"written", tier.written}, {"dropped", tier.dropped}};
}

}  // namespace

HttpResponse cache_reply(const CacheReport& cache, bool cleared) {
  Json json{{"enabled", cache.enabled}};
  if (cache.whole) json["sessions"] = cache.sessions;
  json["snapshots"] = cache.snapshots;
  if (cache.whole) json["size"] = cache.bytes;
  json.update(Json{{"limit", cache.limit_bytes},
                   {"lookups", cache.lookups},
                   {"hits", cache.hits},
                   {"tokens_saved", cache.tokens_saved},
                   {"stored", cache.stored},
                   {"evicted", cache.evicted}});
  if (cache.memory) json["memory"] = tier_json(*cache.memory);
  if (cache.disk) json["disk"] = tier_json(*cache.disk);
  if (cleared) json["cleared"] = true;
  return json_reply(json);
}

HttpResponse cancelled_reply(const std::string& id) {
  Json reply{{"id", id}, {"cancelled", true}};
  if (id.starts_with("resp_")) reply.update({{"object", "response"}, {"status", "cancelled"}});
  return json_reply(reply);
}

Result<HttpResponse> tokenize_reply(const ModelInfo& model_info, std::string_view body) {
  FT_ASSIGN(const Json json, parse_body(body));
  const Fields fields(json, "");
  std::vector<std::int32_t> ids;
  if (fields.find("messages") != nullptr) {
    FT_ASSIGN(const GenerateParams call, read_chat(json));
    FT_ASSIGN(ids, prompt_of(model_info, call));
  } else {
    FT_ASSIGN(const auto text, fields.text("text"));
    if (!text) return wrong("text", "is missing; send {\"text\": ...} or {\"messages\": [...]}");
    FT_ASSIGN(ids, encode_within(model_info, *text, false, {"the text", "text"}));
  }
  return json_reply(Json{{"tokens", ids}, {"count", ids.size()}});
}

Result<HttpResponse> detokenize_reply(const ModelInfo& model_info, std::string_view body) {
  FT_ASSIGN(const Json json, parse_body(body));
  FT_ASSIGN(const Json* tokens, Fields(json, "").array("tokens", std::size_t{1} << 24));
  if (tokens == nullptr) return wrong("tokens", "is missing; send {\"tokens\": [1, 2]}");
  std::vector<std::int32_t> ids;
  for (std::size_t i = 0; i < tokens->size(); ++i) {
    const Json& token = (*tokens)[i];
    const bool good = token.is_number_integer() && token.get<std::int64_t>() >= 0 &&
                      token.get<std::int64_t>() < model_info.vocabulary;
    if (!good) {
      return wrong(fmt::format("tokens[{}]", i), fmt::format("must be a token id below {}, found {}",
                                                             model_info.vocabulary, kind_of(token)));
    }
    ids.push_back(token.get<std::int32_t>());
  }
  return json_reply(Json{{"text", model_info.tokenizer->decode(ids, false)}});
}

}  // namespace ft::api
