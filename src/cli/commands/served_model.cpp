#include "cli/commands/served_model.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/json.h"

namespace ft::cli {

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
  const nlohmann::ordered_json& model = json["data"][0];
  if (!model.is_object() || !model.contains("id") || !model["id"].is_string()) return none;
  facts.model = model["id"].get<std::string>();
  if (model.contains("max_model_len") && model["max_model_len"].is_number_integer()) {
    facts.context = model["max_model_len"].get<std::int64_t>();
  }
  return {};
}

}  // namespace ft::cli
