// `foretoken serve`: the model over HTTP, for OpenAI and Anthropic clients.
#include <chrono>
#include <fmt/format.h>
#include <thread>

#include "base/log.h"
#include "base/text_layout.h"
#include "cli/args/option_flags.h"
#include "cli/commands/answering.h"
#include "cli/commands/connection_settings.h"
#include "cli/commands/response_file.h"
#include "cli/commands/serving.h"
#include "cli/commands/subcommands.h"
#include "cli/library/last_start.h"
#include "cli/max/max_mode.h"
#include "cli/terminal/interrupt.h"
#include "server/host.h"
#include "server/server.h"

namespace ft::cli {
namespace {

struct ServeCommandOptions {
  OutputOptions output;
  ModelOptions model;
  RequestOptions request;  // defaults of a request
  ServeOptions serve;
};

/// At SIGHUP. Files that cannot be read leave the keys as they are.
void read_keys_again(const ServeOptions& choice, server::Server& server) {
  if (choice.api_key_file.empty() && choice.admin_key_file.empty()) {
    return log_info("SIGHUP: there is no key file to reload");
  }
  const Result<ServingKeys> keys = serving_keys(choice);
  if (!keys.ok()) {
    return log_error(fmt::format("SIGHUP: the keys are unchanged: {}", keys.error().message));
  }
  server.replace_keys(keys->users, keys->operators);
  log_info(fmt::format("SIGHUP: reloaded {} keys and {} operators' keys", keys->users.size(),
                       keys->operators.size()));
}

Result<std::vector<std::string>> read_hosts(const ServeOptions& choice) {
  for (const std::string& host : choice.hosts) {
    if (server::may_be_allowed(host)) continue;
    return Error{Code::kInvalid, fmt::format("--allow-host: \"{}\" is not a host; write a name or an address "
                                             "without scheme and port, such as example.org",
                                             host)};
  }
  return choice.hosts;
}

Result<server::ServerOptions> server_choice(const ServeCommandOptions& options) {
  server::ServerOptions chosen;
  FT_ASSIGN(ServingKeys keys, serving_keys(options.serve));
  chosen.api_keys = std::move(keys.users), chosen.admin_keys = std::move(keys.operators);
  chosen.host = options.serve.host, chosen.port = options.serve.port;
  chosen.header_ms = options.serve.head_s * 1000, chosen.idle_ms = options.serve.idle_s * 1000;
  chosen.origins = options.serve.origins;
  FT_ASSIGN(chosen.hosts, read_hosts(options.serve));
  chosen.log_json = options.serve.log_json, chosen.quiet = options.output.quiet;
  return chosen;
}

/// The server's thread: stops and joins it, however work() ends.
class Serving {
 public:
  explicit Serving(server::Server& server) : server_(server), thread_([this] { server_.run(); }) {}
  ~Serving() {
    server_.stop(0);
    thread_.join();
  }
  Serving(const Serving&) = delete;
  Serving& operator=(const Serving&) = delete;

 private:
  server::Server& server_;
  std::thread thread_;
};

Result<int> run_serve(const ServeCommandOptions& options, Terminal& terminal) {
  if (!options.output.quiet)  // one line per request
    set_log_level(options.serve.log_polls ? LogLevel::kDebug : LogLevel::kInfo);
  log_in_background();
  FT_ASSIGN(const server::ServerOptions server_options, server_choice(options));
  std::unique_ptr<LoadedModel> loaded;  // outlives the server, whose last answers read it
  std::unique_ptr<Engine> engine;
  server::App app;
  FT_ASSIGN(const std::unique_ptr<server::Server> server, server::Server::listen(server_options, app));
  const Serving serving(*server);
  if (options.serve.max) FT_TRY(ThermalForge::find());  // before a large model is read
  FT_ASSIGN(const std::shared_ptr<api::ResponseStore> responses,
            open_responses(options.serve.response_store));
  Interrupt interrupt([&] { app.drain(); }, [&] { read_keys_again(options.serve, *server); });
  FT_ASSIGN(loaded, load(options.model, &terminal));
  app.loading(0.5);
  FT_ASSIGN(engine, start_serving_engine(*loaded, options.serve));
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
  const std::string url = serving_url(server_options.host, server->port());
  if (options.output.json) {
    terminal.out(serving_json(*model_info, loaded->plan, url) + "\n");
  } else {
    const std::string screen =
        serving_screen(*loaded, *engine, *model_info, url, options.serve, server_options);
    const auto columns = static_cast<std::size_t>(terminal.columns());
    terminal.out(terminal.out_is_terminal() ? wrapped_text(screen, columns) : screen);
    if (!options.serve.client.empty())
      terminal.out("\n" + connection_settings(options.serve.client,
                                              connection_of(*model_info, url, server_options.api_keys)));
  }
  terminal.flush();
  interrupt.wait();
  const auto note = [&](std::string_view line) {  // not the terminal's: stderr may have no reader any more
    if (!options.output.quiet) log_plain(line);
  };
  note("stopping after running answers finish; press Ctrl-C again to stop at once");
  const bool all_ended = engine->drain(options.serve.grace_s * 1e3);
  if (!all_ended) note("some answers exceeded the grace period and were cancelled");
  constexpr auto kLastBytes = std::chrono::seconds(1);  // from the engine to the sockets
  const auto end = std::chrono::steady_clock::now() + kLastBytes;
  while (app.decoding() > 0 && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  constexpr int kLastLinesMs = 500;
  (void)flush_log(kLastLinesMs);
  return 0;
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
