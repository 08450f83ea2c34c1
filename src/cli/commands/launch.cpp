// `foretoken launch`: starts a client that uses the server of this machine, and that server if none runs.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "base/json.h"
#include "base/system.h"
#include "base/text_file.h"
#include "cli/args/option_flags.h"
#include "cli/commands/launch_clients.h"
#include "cli/commands/launch_users.h"
#include "cli/commands/served_model.h"
#include "cli/commands/serving.h"
#include "cli/commands/subcommands.h"
#include "cli/library/shipped_model.h"
#include "cli/library/state_folder.h"
#include "cli/terminal/child_process.h"
#include "cli/terminal/interrupt.h"

namespace ft::cli {
namespace {

using Json = nlohmann::ordered_json;

struct LaunchOptions {
  OutputOptions output;
  std::string client, model, url, api_key;
  bool print = false;
  std::vector<std::string> arguments;
};

/// The server that the client will use. `own`: started here, and stopped after its last launch.
struct ServerInUse {
  enum class State { kRuns, kAbsent, kPortTaken };  // kPortTaken: another program has the usual port

  State state = State::kRuns;
  ConnectionFacts facts;
  LaunchLock use;
  std::string lock_file;  // empty: no other launch shares the server
  std::optional<ChildProcess> own;
};

constexpr double kStopS = 35;  // its --grace, and a little
constexpr std::chrono::milliseconds kLookAgain{200};

/// A string quoted for a shell, if it needs that.
std::string shell_word(const std::string& text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=@%+,";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string::npos) return text;
  return shell_quoted(text);
}

std::string shell_text(const LaunchPlan& plan, const std::vector<std::string>& more) {
  std::string text;
  for (const std::string& name : plan.removed) text += "unset " + name + "\n";
  for (const auto& [name, value] : plan.variables) text += "export " + name + "=" + shell_word(value) + "\n";
  text += plan.program;
  for (const auto* list : {&plan.arguments, &more}) {
    for (const std::string& word : *list) text += " " + shell_word(word);
  }
  return text + "\n";
}

/// Empty if there is no folder for it.
std::string log_file() {
  const std::string folder = state_folder();
  std::error_code failed;
  if (!folder.empty()) std::filesystem::create_directories(folder, failed);
  return folder.empty() || failed ? "" : folder + "/launch.log";
}

/// The last lines of the server's log, which show why it ended.
std::string end_of_log(const std::string& file) {
  constexpr std::size_t kMaxBytes = 2000, kLimit = std::size_t{64} << 20;
  const Result<std::string> text = read_text_file(file, kLimit);
  if (file.empty() || !text.ok()) return "";
  return "\n" + text->substr(text->size() - std::min(text->size(), kMaxBytes));
}

/// Tells other launches that this one uses the server. Waits while one that nobody used stops.
Status join_users(ServerInUse& server, const volatile bool& stop, Terminal& terminal) {
  server.lock_file = log_file().empty() ? "" : launch_lock_file(server.facts.url);
  if (server.lock_file.empty()) return {};
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(kStopS);
  for (bool told = false; !stop; told = true) {
    FT_ASSIGN(server.use, LaunchLock::take(server.lock_file, LaunchLock::Kind::kShared));
    if (server.use.held()) return {};
    if (!told)
      terminal.note(
          fmt::format("Waiting for the server of an earlier launch at {} to stop", server.facts.url));
    if (std::chrono::steady_clock::now() > end) {
      return Error{Code::kIo,
                   fmt::format("the server of an earlier launch at {} has not stopped in {:.0f} s; "
                               "end its process, then launch again",
                               server.facts.url, kStopS)};
    }
    std::this_thread::sleep_for(kLookAgain);
  }
  return Error{Code::kCancelled, stopped_text()};
}

/// Starts `foretoken serve` and waits until it serves. On another port if another program has the usual one.
Status start_server(const LaunchOptions& options, ServerInUse& server, Terminal& terminal) {
  const bool other_port = server.state == ServerInUse::State::kPortTaken;
  if (other_port) server.lock_file.clear();
  ChildOptions child;
  child.program = program_path();
  child.arguments = {"serve", "--json"};
  if (!options.model.empty()) child.arguments.insert(child.arguments.end(), {"--model", options.model});
  if (other_port) child.arguments.insert(child.arguments.end(), {"--port", "0"});
  child.variables = {{kLaunchVariable, server.lock_file}};
  child.background = child.takes_input = child.stays = true;
  child.log = log_file();
  terminal.note(fmt::format("No server runs: starting foretoken {}{}", fmt::join(child.arguments, " "),
                            child.log.empty() ? "" : "; its log is " + child.log));
  volatile bool stop = false;
  std::optional<std::string> line;
  {
    const Interrupt interrupt([&stop] { stop = true; });
    FT_ASSIGN(ChildProcess process, ChildProcess::start(child));
    server.own.emplace(std::move(process));
    line = server.own->first_line(stop);
  }
  if (stop) return Error{Code::kCancelled, stopped_text()};
  const Json json = line ? read_json<Json>(*line) : Json();
  if (!json.is_object() || !json.contains("url") || !json.contains("model")) {
    return Error{Code::kIo, "the server ended before it served" + end_of_log(child.log)};
  }
  server.facts = {json["url"].get<std::string>(), json["model"].get<std::string>(),
                  json.value("context", std::int64_t{0}), options.api_key};
  return {};
}

Result<ServerInUse> find_server(const LaunchOptions& options, Terminal& terminal) {
  ServerInUse server;
  server.facts = {options.url, "", 0, options.api_key};
  if (options.url.empty()) {
    FT_ASSIGN(const ConnectionFacts usual, usual_connection());
    server.facts.url = usual.url;
    if (options.api_key.empty()) server.facts.api_key = usual.api_key;
  }
  Result<server::Client> client =
      server::Client::make(server.facts.url, server.facts.api_key, {3'000, 10'000});
  if (!client.ok()) return Error{Code::kInvalid, "--url: " + client.error().message};
  server.facts.url = client->url();
  volatile bool stop = false;
  const Interrupt interrupt([&stop] { stop = true; });
  if (!options.print) FT_TRY(join_users(server, stop, terminal));
  Status asked = ask_served_model(*client, server.facts);
  for (bool told = false; !asked.ok() && asked.error().code == Code::kBusy && !stop; told = true) {
    if (!told) terminal.note(fmt::format("{} loads its model", server.facts.url));
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    asked = ask_served_model(*client, server.facts);
  }
  if (stop) return Error{Code::kCancelled, stopped_text()};
  if (asked.ok()) {
    FT_TRY(choose_served_model(*client, options.model, server.facts));
    return server;
  }
  const bool absent = asked.error().code == Code::kIo, other = asked.error().code == Code::kUnsupported;
  if (!options.url.empty() || options.print || (!absent && !other)) {
    if (!options.print) return asked.error();
    terminal.note(asked.error().message + "; the commands name the model " + kUnknownModel);
    server.facts.model = options.model.empty() ? kUnknownModel : options.model;
    return server;
  }
  server.state = other ? ServerInUse::State::kPortTaken : ServerInUse::State::kAbsent;
  return server;
}

/// Finds a server, or starts one.
Result<ServerInUse> server_for(const LaunchOptions& options, Terminal& terminal) {
  FT_ASSIGN(ServerInUse server, find_server(options, terminal));
  if (server.state == ServerInUse::State::kRuns) return server;
  const Status started = start_server(options, server, terminal);
  if (started.ok()) return server;
  server.own.reset();
  server.use.release();
  if (started.error().code == Code::kCancelled) return started.error();
  Result<ServerInUse> other = find_server(options, terminal);  // another launch may have been first
  if (other.ok() && other->state == ServerInUse::State::kRuns) return other;
  return started.error();
}

/// Stops the server that this launch started, unless another launch uses it.
void end_own_server(ServerInUse& server, Terminal& terminal) {
  if (!server.own) return;
  server.use.release();
  LaunchLock alone;  // held to the server's end: a launch that comes meanwhile waits for that
  if (!server.lock_file.empty()) {
    Result<LaunchLock> lock = LaunchLock::take(server.lock_file, LaunchLock::Kind::kAlone);
    if (lock.ok() && !lock->held()) {
      terminal.note(fmt::format("The server at {} stays: another launch uses it, and it ends with the last",
                                server.facts.url));
      return server.own->leave();
    }
    if (lock.ok()) alone = std::move(*lock);
  }
  server.own->stop(kStopS);
}

Result<int> run_launch(const LaunchOptions& options, Terminal& terminal) {
  const std::string program = find_program(program_of(options.client));
  if (program.empty() && !options.print) {
    return Error{Code::kNotFound,
                 fmt::format("{} is not installed (there is no {} on PATH); install it with: {}",
                             options.client, program_of(options.client), installation_of(options.client))};
  }
  FT_ASSIGN(ServerInUse server, server_for(options, terminal));
  const LaunchPlan plan = launch_plan(options.client, server.facts);
  if (options.print) {
    terminal.out(shell_text(plan, options.arguments));
    return 0;
  }
  const std::int64_t needed = needed_context(options.client);
  if (server.facts.context > 0 && server.facts.context < needed) {
    terminal.note(
        fmt::format("The context of {} tokens is short for {}, which sends at least {}: start serve with "
                    "fewer --slots or a larger --context",
                    server.facts.context, options.client, needed / 2));
  }
  if (needed > 0 && server.facts.model == kShippedModel) {
    terminal.note(fmt::format(
        "{} has 33 million parameters and demonstrates the program; it cannot do an agent's work. "
        "`foretoken start` offers models, --model chooses one",
        kShippedModel));
  }
  terminal.note(fmt::format("{} uses {} at {}", options.client, server.facts.model, server.facts.url));
  terminal.flush();
  ChildOptions child;
  child.program = program, child.arguments = plan.arguments;
  child.variables = plan.variables, child.removed = plan.removed;
  child.arguments.insert(child.arguments.end(), options.arguments.begin(), options.arguments.end());
  FT_ASSIGN(ChildProcess process, ChildProcess::start(child));
  const int status = process.wait();
  end_own_server(server, terminal);
  return status;
}

}  // namespace

Command launch_command() {
  auto options = std::make_shared<LaunchOptions>();
  Command command;
  command.name = "launch";
  command.summary = "Start an agent or another client on a local model, and the server if none runs";
  command.examples =
      "  foretoken launch claude\n"
      "  foretoken launch codex --model Qwen3.5-4B-OptiQ-4bit\n"
      "  foretoken launch aider -- --no-git src/main.py      # words after -- go to the client\n"
      "  foretoken launch opencode --print                   # show the commands only\n";
  command.flags.group("Client");
  command.flags.positional = "client";
  command.flags
      .add("client", "NAME", reads_choice(options->client, launched_clients()),
           fmt::format("{}", fmt::join(launched_clients(), ", ")))
      .setting = false;
  command.flags.rest = "argument";
  command.flags
      .add_list("argument", "WORD", appends_text(options->arguments),
                "An argument for the client; or write all of them after --")
      .setting = false;
  command.flags.add_switch("print", options->print,
                           "Print the shell commands that would set and start it, and start nothing");
  command.flags.group("Server");
  command.flags.add(
      "model", "NAME", reads_text(options->model),
      "Model to serve if no server runs, or to choose if a server has several models (default: the "
      "model in the settings, else the shipped one)");
  command.flags.add("url", "URL", reads_text(options->url),
                    "Use this server and start none (default: the address in the settings of `serve`)");
  command.flags.add("api-key", "KEY", reads_text(options->api_key),
                    "API key of the server (default: the key in the settings of `serve`)");
  command.check = [options]() -> Status {
    if (!options->client.empty()) return {};
    return Error{Code::kInvalid,
                 fmt::format("which client? use foretoken launch {}", fmt::join(launched_clients(), " | "))};
  };
  return bind_options(std::move(command), std::move(options), run_launch);
}

}  // namespace ft::cli
