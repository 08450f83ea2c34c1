#include "api/several_models.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "api/fields.h"
#include "base/json.h"

namespace ft::api {
namespace {

HttpResponse state_reply(const Json& json) {
  HttpResponse reply;
  reply.body = dump(json);
  return reply;
}

Json state_of(const ListedModel& model) {
  return Json{{"id", model.id},
              {"state", model.state},
              {"memory", model.memory_bytes > 0 ? Json(model.memory_bytes) : Json()},
              {"answering", model.answering},
              {"waiting", model.waiting},
              {"problem", model.problem.empty() ? Json() : Json(model.problem)}};
}

/// The entry of the model's own listing, else what every entry has.
Json listed_entry(const ListedModel& model) {
  Json json = model.facts.empty() ? Json::object() : read_json<Json>(model.facts);
  if (!json.is_object()) json = Json::object();
  Json whole{{"id", model.id}, {"object", "model"}, {"created", model.created_s}, {"owned_by", "foretoken"}};
  for (const auto& [name, value] : json.items()) {
    if (!whole.contains(name)) whole[name] = value;
  }
  whole["state"] = model.state;
  whole["memory"] = model.memory_bytes > 0 ? Json(model.memory_bytes) : Json();
  whole["answering"] = model.answering, whole["waiting"] = model.waiting;
  whole["problem"] = model.problem.empty() ? Json() : Json(model.problem);
  return whole;
}

Json anthropic_entry(const ListedModel& model) {
  const Json known = listed_entry(model);
  const Json context = known.contains("max_model_len") ? known["max_model_len"] : Json();
  return Json{{"type", "model"},          {"id", model.id},
              {"display_name", model.id}, {"created_at", iso_time(model.created_s)},
              {"lifecycle", "active"},    {"max_input_tokens", context},
              {"max_tokens", context}};
}

}  // namespace

Result<std::string> model_asked(std::string_view body) {
  FT_ASSIGN(const Json json, parse_body(body));
  FT_ASSIGN(const auto model, Fields(json, "").text("model"));
  return model.value_or("");
}

Result<HttpResponse> models_reply(std::span<const ListedModel> models, Dialect dialect, const Page& page) {
  Json list = Json::array();
  if (dialect == Dialect::kOpenAi) {
    for (const ListedModel& model : models) list.push_back(listed_entry(model));
    return state_reply(Json{{"object", "list"}, {"data", std::move(list)}});
  }
  std::vector<std::string> ids;
  for (const ListedModel& model : models) ids.push_back(model.id);
  FT_ASSIGN(const PageRange range, range_of(page, ids));
  for (std::size_t i = range.begin; i < range.end; ++i) list.push_back(anthropic_entry(models[i]));
  const bool none = range.begin == range.end;
  return state_reply(Json{{"data", std::move(list)},
                          {"has_more", range.more},
                          {"first_id", none ? Json() : Json(ids[range.begin])},
                          {"last_id", none ? Json() : Json(ids[range.end - 1])}});
}

HttpResponse model_reply(const ListedModel& model, Dialect dialect) {
  return state_reply(dialect == Dialect::kOpenAi ? listed_entry(model) : anthropic_entry(model));
}

HttpResponse health_reply(std::span<const ListedModel> models) {
  Json list = Json::array();
  for (const ListedModel& model : models) list.push_back(state_of(model));
  return state_reply(Json{{"status", "ready"}, {"models", std::move(list)}});
}

HttpResponse props_reply(const ListedModel& model, const std::string& version) {
  const Json known = listed_entry(model);
  return state_reply(Json{{"model", model.id},
                          {"state", model.state},
                          {"context", known.contains("max_model_len") ? known["max_model_len"] : Json()},
                          {"version", version}});
}

HttpResponse model_state_reply(const ListedModel& model) { return state_reply(state_of(model)); }

}  // namespace ft::api
