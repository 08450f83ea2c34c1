// `foretoken connect`: prints the client settings for a running server.
#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "cli/args/option_flags.h"
#include "cli/commands/connection_settings.h"
#include "cli/commands/served_model.h"
#include "cli/commands/serving.h"
#include "cli/commands/subcommands.h"
#include "server/client.h"

namespace ft::cli {
namespace {

using Json = nlohmann::ordered_json;

struct ConnectOptions {
  OutputOptions output;
  std::string client, url, api_key, model;
};

Result<int> run_connect(const ConnectOptions& options, Terminal& terminal) {
  ConnectionFacts facts{options.url, kUnknownModel, 0, options.api_key};
  if (options.url.empty()) {  // the server of this machine, as it reads its settings
    FT_ASSIGN(const ConnectionFacts usual, usual_connection());
    facts.url = usual.url;
    if (facts.api_key.empty()) facts.api_key = usual.api_key;
  }
  Result<server::Client> client = server::Client::make(facts.url, facts.api_key, {3'000, 10'000});
  if (!client.ok()) return Error{Code::kInvalid, "--url: " + client.error().message};
  facts.url = client->url();
  if (facts.url.ends_with("/v1")) {  // the settings add it again
    facts.url.resize(facts.url.size() - 3);
    client = server::Client::make(facts.url, facts.api_key, {3'000, 10'000});
  }
  const Status asked = ask_served_model(*client, facts);
  if (asked.ok()) FT_TRY(choose_served_model(*client, options.model, facts));
  if (!asked.ok()) {
    terminal.note(
        fmt::format("{}; these settings use {} as the model id", asked.error().message, kUnknownModel));
  }
  const std::string text = connection_settings(options.client, facts);
  if (options.output.json) {
    terminal.out(write_json(Json{{"client", options.client},
                                 {"url", facts.url},
                                 {"model", asked.ok() ? Json(facts.model) : Json()},
                                 {"context", facts.context > 0 ? Json(facts.context) : Json()},
                                 {"problem", asked.ok() ? Json() : Json(asked.error().message)},
                                 {"settings", text}}) +
                 "\n");
  } else {
    terminal.out(text);
  }
  return 0;
}

}  // namespace

Command connect_command() {
  auto options = std::make_shared<ConnectOptions>();
  Command command;
  command.name = "connect";
  command.summary = "Print the settings that connect a client to a running server";
  command.examples =
      "  foretoken connect openwebui\n"
      "  foretoken connect codex --url http://127.0.0.1:9000 --api-key secret\n"
      "  eval \"$(foretoken connect claude-code | grep ^export)\"; claude\n";
  command.flags.group("Client");
  command.flags.positional = "client";
  command.flags
      .add("client", "NAME", reads_choice(options->client, connected_clients()),
           fmt::format("{}", fmt::join(connected_clients(), ", ")))
      .setting = false;
  command.flags.group("Server");
  command.flags.add("url", "URL", reads_text(options->url),
                    "Address of the server (default: the settings of `serve`, else http://127.0.0.1:8080)");
  command.flags
      .add("model", "NAME", reads_text(options->model), "Model on a server of several (default: its first)")
      .setting = false;
  command.flags.add("api-key", "KEY", reads_text(options->api_key),
                    "API key of the server (default without --url: the key in the settings of `serve`)");
  command.check = [options]() -> Status {
    if (!options->client.empty()) return {};
    return Error{Code::kInvalid, fmt::format("which client? use foretoken connect {}",
                                             fmt::join(connected_clients(), " | "))};
  };
  return bind_options(std::move(command), std::move(options), run_connect);
}

}  // namespace ft::cli
