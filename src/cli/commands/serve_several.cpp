#include "cli/commands/serve_several.h"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "api/choice.h"
#include "base/json.h"
#include "base/text_layout.h"
#include "cli/commands/model_processes.h"
#include "cli/commands/response_file.h"
#include "cli/commands/server_thread.h"
#include "cli/terminal/interrupt.h"
#include "server/front/front.h"
#include "server/ui_asset.h"

namespace ft::cli {
namespace {

using Json = nlohmann::ordered_json;

/// NAME is another name of the first model; NAME=MODEL names that model.
Result<std::map<std::string, std::string>> read_aliases(const std::vector<std::string>& values,
                                                        const std::vector<NamedModel>& models) {
  std::map<std::string, std::string> aliases;
  for (const std::string& value : values) {
    const std::size_t equals = value.find('=');
    const std::string target = equals == std::string::npos ? models.front().name : value.substr(equals + 1);
    if (std::ranges::find(models, target, &NamedModel::name) == models.end()) {
      return Error{Code::kInvalid, fmt::format("--alias {}: {} is not one of --models", value, target)};
    }
    aliases[value.substr(0, equals)] = target;
  }
  return aliases;
}

Status check_flags(const ServeOptions& choice) {
  if (choice.max)
    return Error{Code::kInvalid, "--max belongs to a server of one model; leave --models or --max out"};
  if (!choice.client.empty()) {
    return Error{Code::kInvalid,
                 "--connect belongs to a server of one model; use `foretoken connect` once this one runs"};
  }
  return {};
}

Result<server::FrontOptions> front_options(const ServeOptions& choice,
                                           const std::vector<NamedModel>& models) {
  constexpr std::int64_t kMinuteMs = 60'000;
  server::FrontOptions options;
  for (const NamedModel& model : models) options.ids.push_back(model.name);
  FT_ASSIGN(options.aliases, read_aliases(choice.aliases, models));
  options.any_model = choice.any_model;
  options.limits.memory_bytes = static_cast<std::int64_t>(choice.memory_mb) << 20;
  options.limits.idle_ms = choice.idle_minutes * kMinuteMs;
  options.queue = choice.queue;
  options.secret = api::random_id("");
  options.version = FORETOKEN_VERSION;
  if (choice.response_store != "off") {
    FT_ASSIGN(options.responses, open_responses(choice.response_store));
  }
  return options;
}

/// The command that shows this server: it needs no address where the settings give the same one.
std::string status_command(const std::string& url) {
  const Result<ConnectionFacts> usual = usual_connection();
  return usual.ok() && usual->url == url ? "foretoken status" : "foretoken status --url " + url;
}

std::string screen(const std::vector<NamedModel>& models, const std::string& url,
                   const ServeOptions& choice) {
  std::vector<std::string> names;
  for (const NamedModel& model : models) names.push_back(model.name);
  const std::string idle = choice.idle_minutes > 0
                               ? fmt::format("unloaded after {} idle minutes", choice.idle_minutes)
                               : "unloaded only when another needs their memory";
  const std::string memory = choice.memory_mb > 0
                                 ? fmt::format("up to {} MB for all loaded models", choice.memory_mb)
                                 : "the memory that is free when the first is loaded";
  const std::string page = ui_asset() != nullptr ? fmt::format("  page      {}/\n", url) : "";
  return fmt::format(
      "foretoken {} serves {} models at {}\n"
      "  models    {}\n"
      "  memory    {}; models are loaded at their first request, {}\n"
      "{}"
      "  OpenAI    {}/v1      (chat/completions, completions, responses, models)\n"
      "  Anthropic {}         (/v1/messages)\n"
      "  status    {}\n",
      FORETOKEN_VERSION, models.size(), url, fmt::join(names, ", "), memory, idle, page, url, url,
      status_command(url));
}

}  // namespace

Result<int> serve_several(const ServeOptions& choice, const OutputOptions& output, Terminal& terminal) {
  FT_TRY(check_flags(choice));
  FT_ASSIGN(const server::ServerOptions server_choice, server_options(choice, output.quiet));
  FT_ASSIGN(const std::vector<NamedModel> models, several_models(choice.models));
  FT_ASSIGN(server::FrontOptions front, front_options(choice, models));
  auto starter = model_starter(models, front.secret);
  server::App app;
  FT_ASSIGN(const std::unique_ptr<server::Server> server,
            server::Server::listen(server_choice, app, std::move(front), std::move(starter)));
  const ServerThread serving(*server);
  Interrupt interrupt([&] { app.drain(); }, [&] { read_keys_again(choice, *server); });
  const std::string url = serving_url(server_choice.host, server->port());
  if (output.json) {
    Json names = Json::array();
    for (const NamedModel& model : models) names.push_back(model.name);
    terminal.out(write_json(Json{{"url", url}, {"model", models.front().name}, {"models", names}}) + "\n");
  } else {
    const std::string text = screen(models, url, choice);
    const auto columns = static_cast<std::size_t>(terminal.columns());
    terminal.out(terminal.out_is_terminal() ? wrapped_text(text, columns) : text);
  }
  terminal.flush();
  interrupt.wait();
  end_answers(output.quiet, [&] { return wait_for_answers(app, std::chrono::seconds(choice.grace_s)); });
  return 0;
}

}  // namespace ft::cli
