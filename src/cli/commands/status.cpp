// `foretoken status`: the models of a running server, loaded or not.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/text_layout.h"
#include "cli/args/option_flags.h"
#include "cli/commands/served_model.h"
#include "cli/commands/serving.h"
#include "cli/commands/subcommands.h"

namespace ft::cli {
namespace {

using Json = nlohmann::ordered_json;

struct StatusOptions {
  OutputOptions output;
  std::string url, api_key;
};

std::string number_text(const Json& model, const char* name) {
  const auto found = model.find(name);
  const bool known = found != model.end() && found->is_number_integer();
  return known ? fmt::format("{}", found->get<std::int64_t>()) : "-";
}

std::string memory_text(const Json& model) {
  const auto found = model.find("memory");
  const bool known = found != model.end() && found->is_number_integer();
  return known ? bytes_text(static_cast<double>(found->get<std::int64_t>())) : "-";
}

/// A server of one model reports no state; as it answers, its model is ready.
std::string table(const Json& list) {
  std::vector<std::vector<std::string>> rows = {
      {"model", "state", "memory", "context", "answering", "waiting"}};
  std::string problems;
  for (const Json& model : list) {
    if (!model.is_object()) continue;
    const std::string id = model.value("id", std::string("-"));
    rows.push_back({id, model.value("state", std::string("ready")), memory_text(model),
                    number_text(model, "max_model_len"), number_text(model, "answering"),
                    number_text(model, "waiting")});
    const auto problem = model.find("problem");
    if (problem != model.end() && problem->is_string()) {
      const std::string text = problem->get<std::string>();
      problems += "\n" + (text.starts_with(id) ? text : fmt::format("{}: {}", id, text)) + "\n";
    }
  }
  return table_text(rows) + problems;
}

Result<int> run_status(const StatusOptions& options, Terminal& terminal) {
  ConnectionFacts facts{options.url, "", 0, options.api_key};
  if (options.url.empty()) {
    FT_ASSIGN(const ConnectionFacts usual, usual_connection());
    facts.url = usual.url;
    if (facts.api_key.empty()) facts.api_key = usual.api_key;
  }
  Result<server::Client> client = server::Client::make(facts.url, facts.api_key, {3'000, 10'000});
  if (!client.ok()) return Error{Code::kInvalid, "--url: " + client.error().message};
  FT_TRY(ask_served_model(*client, facts));
  FT_ASSIGN(const server::ClientResponse reply, client->get("/v1/models"));
  const Json json = read_json<Json>(reply.body);
  const Json list = json.is_object() && json.contains("data") ? json["data"] : Json::array();
  if (options.output.json) {
    terminal.out(write_json(Json{{"url", client->url()}, {"models", list}}) + "\n");
  } else {
    terminal.out(fmt::format("{}\n{}", client->url(), table(list)));
  }
  return 0;
}

}  // namespace

Command status_command() {
  auto options = std::make_shared<StatusOptions>();
  Command command;
  command.name = "status";
  command.summary = "Show the models of a running server: loaded or not, memory, requests";
  command.examples =
      "  foretoken status\n"
      "  foretoken status --url http://127.0.0.1:9000 --api-key secret\n";
  command.flags.group("Server");
  command.flags.add("url", "URL", reads_text(options->url),
                    "Address of the server (default: the settings of `serve`, else http://127.0.0.1:8080)");
  command.flags.add("api-key", "KEY", reads_text(options->api_key),
                    "API key of the server (default without --url: the key in the settings of `serve`)");
  return bind_options(std::move(command), std::move(options), run_status);
}

}  // namespace ft::cli
