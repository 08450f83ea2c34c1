#include "cli/commands/served_model.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/ascii.h"
#include "base/json.h"

namespace ft::cli {
namespace {

/// False if it is not the entry of a model.
bool take_entry(const nlohmann::ordered_json& model, ConnectionFacts& facts) {
  if (!model.is_object() || !model.contains("id") || !model["id"].is_string()) return false;
  facts.model = model["id"].get<std::string>();
  if (model.contains("max_model_len") && model["max_model_len"].is_number_integer())
    facts.context = model["max_model_len"].get<std::int64_t>();
  return true;
}

}  // namespace

Status ask_served_model(const server::Client& client, ConnectionFacts& facts) {
  FT_ASSIGN(const server::ClientResponse reply, client.get("/v1/models"));
  if (reply.status != 200) {
    const Code code = reply.status == 503   ? Code::kBusy
                      : reply.status == 401 ? Code::kInvalid
                                            : Code::kUnsupported;
    return Error{code, fmt::format("{} answers GET /v1/models with {}{}", client.url(), reply.status,
                                   reply.status == 401   ? "; give its key with --api-key"
                                   : reply.status == 503 ? "; the model is still loading, try again"
                                                         : "")};
  }
  const nlohmann::ordered_json json = read_json<nlohmann::ordered_json>(reply.body);
  const Error none{Code::kUnsupported,
                   fmt::format("{} lists no model; check that it is a foretoken server", client.url())};
  if (!json.is_object() || !json.contains("data") || !json["data"].is_array() || json["data"].empty()) {
    return none;
  }
  return take_entry(json["data"][0], facts) ? Status() : none;
}

Status choose_served_model(const server::Client& client, const std::string& name, ConnectionFacts& facts) {
  if (name.empty() || name == facts.model) return {};
  FT_ASSIGN(const server::ClientResponse reply, client.get("/v1/models/" + percent_encoded(name, true)));
  const std::string first = facts.model;
  facts.context = 0;
  if (reply.status == 200 && take_entry(read_json<nlohmann::ordered_json>(reply.body), facts)) {
    facts.model = name;  // an alias is kept
    return {};
  }
  return Error{Code::kInvalid, fmt::format("the server at {} serves {}, not {}; `foretoken status` lists its "
                                           "models; stop it, or leave --model out",
                                           facts.url, first, name)};
}

}  // namespace ft::cli
