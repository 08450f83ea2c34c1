// `foretoken serve`: the model over HTTP, for OpenAI and Anthropic clients.
#include <chrono>
#include <fmt/format.h>
#include <thread>

#include "base/log.h"
#include "base/text_layout.h"
#include "cli/args/option_flags.h"
#include "cli/commands/answering.h"
#include "cli/commands/behind_front.h"
#include "cli/commands/connection_settings.h"
#include "cli/commands/launch_users.h"
#include "cli/commands/response_file.h"
#include "cli/commands/serve_several.h"
#include "cli/commands/server_thread.h"
#include "cli/commands/serving.h"
#include "cli/commands/subcommands.h"
#include "cli/library/last_start.h"
#include "cli/max/max_mode.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/report_json.h"
#include "server/server.h"

namespace ft::cli {
namespace {

struct ServeCommandOptions {
  OutputOptions output;
  ModelOptions model;
  RequestOptions request;  // defaults of a request
  ServeOptions serve;
};

/// `front`: null for a server without a front.
Result<int> serve_one(const ServeCommandOptions& options, const BehindFront* front, Terminal& terminal) {
  FT_ASSIGN(server::ServerOptions server_choice, server_options(options.serve, options.output.quiet));
  if (front) server_choice.front_secret = front->secret();
  std::unique_ptr<LoadedModel> loaded;  // outlives the server, whose last answers read it
  std::unique_ptr<Engine> engine;
  server::App app;
  FT_ASSIGN(const std::unique_ptr<server::Server> server, server::Server::listen(server_choice, app));
  const ServerThread serving(*server);
  if (options.serve.max) FT_TRY(ThermalForge::find());  // before a large model is read
  FT_ASSIGN(const std::shared_ptr<api::ResponseStore> responses,
            open_responses(options.serve.response_store));
  Interrupt interrupt([&] { app.drain(); }, [&] { read_keys_again(options.serve, *server); });
  FT_ASSIGN(loaded,
            load(options.model, &terminal, options.serve.shared ? options.serve.shared->device_bytes : 0));
  if (front) loaded->model.name = front->name();
  app.loading(0.5);
  FT_ASSIGN(engine, start_serving_engine(*loaded, options.serve,
                                         [front](const MemoryReport& needed, const MemoryPlan& plan) {
                                           return front ? front->plan(needed, plan) : Status();
                                         }));
  const std::shared_ptr<const api::ModelInfo> model_info =
      what_is_served(*loaded, *engine, options.serve, options.request, responses);
  app.ready(*engine, model_info);
  if (keep_start()) terminal.note(kKeptStart);
  // The first grammar prepares the vocabulary, which takes seconds: done here, no request waits for it.
  const std::jthread prepare([model_info] {
    if (model_info->grammars != nullptr) (void)model_info->grammars->json_object();
  });
  std::unique_ptr<MaxMode> max_mode;
  if (options.serve.max) {
    const auto busy = [&engine] { return engine->status().running > 0; };
    FT_ASSIGN(max_mode,
              MaxMode::start({fans_idle_s(), busy, [](const std::string& line) { log_plain(line); }}));
  }
  const std::string url = serving_url(server_choice.host, server->port());
  if (front) {
    front->serves(*model_info, server->port());
  } else if (options.output.json) {
    terminal.out(serving_json(*model_info, loaded->plan, url) + "\n");
  } else {
    const std::string screen =
        serving_screen(*loaded, *engine, *model_info, url, options.serve, server_choice);
    const auto columns = static_cast<std::size_t>(terminal.columns());
    terminal.out(terminal.out_is_terminal() ? wrapped_text(screen, columns) : screen);
    if (!options.serve.client.empty())
      terminal.out("\n" + connection_settings(options.serve.client,
                                              connection_of(*model_info, url, server_choice.api_keys)));
  }
  terminal.flush();
  interrupt.wait();
  end_answers(options.output.quiet, [&] {
    const bool all_ended = engine->drain(options.serve.grace_s * 1e3);
    constexpr auto kLastBytes = std::chrono::seconds(1);  // from the engine to the sockets
    wait_for_answers(app, kLastBytes);
    return all_ended;
  });
  return 0;
}

/// The process of one of several models; the front logs its requests.
Result<int> serve_behind(const BehindFront& front, ServeCommandOptions options, Terminal& terminal) {
  const bool tells_errors = options.output.json;  // cli.cpp does
  front.apply(options.serve, options.model);
  options.output.quiet = true;
  terminal.quiet(true);
  set_log_level(LogLevel::kWarn);
  Result<int> status = serve_one(options, &front, terminal);
  if (!status.ok() && !tells_errors) terminal.out(error_json(status.error()) + "\n");
  return status;
}

Result<int> run_serve(const ServeCommandOptions& options, Terminal& terminal) {
  end_with_launches();
  FT_ASSIGN(const std::unique_ptr<BehindFront> front, BehindFront::from_environment());
  if (!front && !options.output.quiet)  // one line per request
    set_log_level(options.serve.log_polls ? LogLevel::kDebug : LogLevel::kInfo);
  log_in_background();
  if (front) return serve_behind(*front, options, terminal);
  if (!options.serve.models.empty()) return serve_several(options.serve, options.output, terminal);
  return serve_one(options, nullptr, terminal);
}

}  // namespace

Command serve_command() {
  auto options = std::make_shared<ServeCommandOptions>();
  Command command;
  command.name = "serve";
  command.answers_on_stdout = false;
  command.summary = "Serve the model over the OpenAI and Anthropic APIs";
  command.examples =
      "  foretoken serve\n"
      "  foretoken serve --model models/Qwen3.5-4B --slots 4 --context 32768 --alias claude-local\n"
      "  foretoken serve --models all --idle-minutes 10      # several models at one address\n"
      "  foretoken serve --host 0.0.0.0 --api-key-file keys.txt\n"
      "  curl http://127.0.0.1:8080/v1/chat/completions -d '{\"messages\":[{\"role\":\"user\","
      "\"content\":\"Hello\"}]}'\n";
  add_serve_flags(command.flags, options->serve, options->model);
  add_sampling_flags(command.flags, options->request);
  options->model.calibration = "auto";
  add_model_flags(command.flags, options->model);
  add_calibration_flag(command.flags, options->model);
  return bind_options(std::move(command), std::move(options), run_serve);
}

}  // namespace ft::cli
