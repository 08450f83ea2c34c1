// `foretoken chat`: a conversation in the terminal or through a pipe. With --json, each input line gives one
// line on stdout: the object of `run --json`, or an error; /commands answer on stderr.
#include <fmt/format.h>
#include <unistd.h>

#include "base/utf8.h"
#include "cli/args/option_flags.h"
#include "cli/commands/answering.h"
#include "cli/commands/chat_session.h"
#include "cli/commands/remote_answer.h"
#include "cli/commands/subcommands.h"
#include "cli/library/last_start.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/line_editor.h"
#include "cli/terminal/report_json.h"
#include "cli/terminal/streaming.h"

namespace ft::cli {
namespace {

struct ChatOptions {
  OutputOptions output;
  ModelOptions model;
  RequestOptions request;
  SpeculationOptions speculation;
  std::string system, load, server, api_key;
  std::optional<bool> think;
};

/// Generates the next message of a conversation.
using Turn = std::function<Status(ChatSession&)>;

/// One turn: renders the template and prints the answer as a stream, or as one JSON line at the end.
Status turn(ChatSession& session, const LoadedModel& loaded, Engine& engine, bool json, Terminal& terminal) {
  FT_ASSIGN(const Prompt prompt, render_prompt(session.rendered_messages(), "", session.think, loaded));
  GenerateOptions ask;
  ask.request = session.request;
  ask.explain_depth = session.speculation.explain_depth;
  FT_ASSIGN(ask.predicted, read_predicted(session.speculation.predict_file, *loaded.tokenizer));
  FT_ASSIGN(Request request, make_request(prompt, ask, loaded));
  FT_ASSIGN(Ticket ticket, engine.submit(std::move(request)));
  const Interrupt interrupt([&ticket] { ticket.cancel(); });
  Streaming streaming(terminal, json ? Streaming::Mode::kSilent : Streaming::Mode::kShow);
  GatheredAnswer answer = collect_answer(ticket, [&](const Event& event) {
    streaming.show(event);
    if (terminal.gone()) ticket.cancel();
  });
  streaming.end();
  if (answer.finish == Finish::kError) return answer.error;
  session.add_answer(answer);
  if (terminal.err_is_terminal()) terminal.sentence(fmt::format("[{}]", answer_note(answer)), Style::kDim);
  if (json) {
    RunReport report;
    report.model = loaded.model.name, report.backend = loaded.backend->describe();
    report.wants_logprobs = session.request.logprobs >= 0, report.tokenizer = &*loaded.tokenizer;
    report.load_ms = loaded.load_ms, report.costs = engine.cost_source();
    report.answer = std::move(answer);
    terminal.out(run_json(report) + "\n");
    terminal.flush();
  }
  return {};
}

/// One line of input that is not a /command. The user's message is removed if the turn fails.
bool answer_line(ChatSession& session, const std::string& line, const Turn& turn_of, bool json,
                 Terminal& terminal) {
  session.messages.push_back({"user", utf8_replace_invalid(line), "", std::exchange(session.images, {})});
  const Status status = turn_of(session);
  if (status.ok()) return true;
  session.images = std::move(session.messages.back().images);
  session.messages.pop_back();
  terminal.err(fmt::format("foretoken: {}\n", status.error().message));
  if (json) terminal.out(error_json(status.error()) + "\n");
  terminal.flush();
  return false;
}

/// The same with the model of a server.
Status remote_turn(ChatSession& session, const server::Client& client, Terminal& terminal) {
  std::atomic<bool> stop{false};
  const Interrupt interrupt([&stop] { stop = true; });
  Streaming streaming(terminal, Streaming::Mode::kShow);
  Result<GatheredAnswer> answer = ask_server(
      client, session,
      [&](const Event& event) {
        streaming.show(event);
        if (terminal.gone()) stop = true;
      },
      stop);
  streaming.end();
  if (!answer.ok()) return answer.error();
  session.add_answer(*answer);
  if (terminal.err_is_terminal()) terminal.sentence(fmt::format("[{}]", answer_note(*answer)), Style::kDim);
  return {};
}

/// Reads lines until the end. Returns exit status 1 if a line failed and no terminal showed it.
Result<int> converse(const ChatOptions& options, const std::string& greeting, const Turn& turn_of,
                     Terminal& terminal) {
  ChatSession session;
  session.system = options.system, session.think = options.think;
  session.request = options.request, session.speculation = options.speculation;
  if (!options.load.empty()) {
    const CommandOutcome loaded_file = run_chat_command(session, "/load " + options.load);
    if (loaded_file.failed)
      return Error{Code::kNotFound, loaded_file.words.substr(std::string("foretoken: ").size())};
  }
  const bool json = options.output.json;
  const bool interactive = ::isatty(STDIN_FILENO) == 1 && terminal.out_is_terminal() && !json;
  if (interactive) terminal.note(greeting + "; /help for commands, Ctrl-D to leave");
  LineEditor editor(history_path(), interactive);
  bool failed = false;
  while (!terminal.gone() && terminal.status().ok()) {
    const std::optional<std::string> line = editor.read("> ");
    if (!line) break;
    if (line->empty()) continue;
    if (line->front() == '/') {
      const CommandOutcome outcome = run_chat_command(session, *line);
      if (outcome.quit) break;
      if (!json) terminal.wraps();
      outcome.failed || json ? terminal.err(outcome.words) : terminal.out(outcome.words);
      terminal.flush();
      failed = failed || (outcome.failed && !interactive);
      continue;
    }
    const bool answered = answer_line(session, *line, turn_of, json, terminal);
    failed = failed || (!answered && !interactive);
  }
  if (interactive) terminal.out("\n");
  return failed ? 1 : 0;  // a script needs the status; a user has seen the error
}

Result<int> run_chat(const ChatOptions& options, Terminal& terminal) {
  if (!options.server.empty()) {
    FT_ASSIGN(const server::Client client, server::Client::make(options.server, options.api_key));
    return converse(
        options, "the model of " + client.url(),
        [&](ChatSession& session) { return remote_turn(session, client, terminal); }, terminal);
  }
  FT_ASSIGN(const std::unique_ptr<LoadedModel> loaded, load(options.model, &terminal));
  if (!loaded->chat_template) {
    return Error{Code::kNotFound, fmt::format("{}; use foretoken run --raw, which needs no template",
                                              loaded->chat_template_problem)};
  }
  FT_ASSIGN(const std::unique_ptr<Engine> engine, start_engine(*loaded));
  if (options.speculation.explain_depth) terminal.note(cost_note(*engine));
  if (keep_start()) terminal.note(kKeptStart);
  return converse(
      options, fmt::format("{} on {}", loaded->model.name, loaded->backend->describe()),
      [&](ChatSession& session) { return turn(session, *loaded, *engine, options.output.json, terminal); },
      terminal);
}

}  // namespace

Command chat_command() {
  auto options = std::make_shared<ChatOptions>();
  Command command;
  command.name = "chat";
  command.summary = "Chat in the terminal";
  command.examples =
      "  foretoken chat\n"
      "  foretoken chat --system \"Answer in one sentence\" --temperature 0\n"
      "  foretoken chat --load talk.json\n"
      "  foretoken chat --server http://127.0.0.1:8080\n"
      "  printf 'Hello\\n/stats\\n' | foretoken chat\n"
      "  printf 'Hello\\nWho are you?\\n' | foretoken chat --json   one JSON line per input line\n";
  command.flags.group("Conversation");
  command.flags.add("system", "TEXT", reads_text(options->system), "System message");
  command.flags.add("think", "on|off", reads_on_off(options->think),
                    "Reasoning before the answer (default: the template's choice)");
  command.flags.add("server", "URL", reads_text(options->server),
                    "Chat with the server at this address instead of loading a model");
  command.flags.add("api-key", "KEY", reads_text(options->api_key), "API key of that server");
  command.flags.add("load", "FILE", reads_text(options->load), "Continue a conversation saved with /save");
  options->request.max_tokens = 2048;
  add_answer_flags(command.flags, options->request);
  add_sampling_flags(command.flags, options->request);
  add_speculation_flags(command.flags, options->request, options->speculation, &options->model);
  options->model.calibration = "auto";
  add_model_flags(command.flags, options->model);
  add_calibration_flag(command.flags, options->model);
  command.check = [options]() -> Status {
    if (options->server.empty() || !options->output.json) return {};
    return Error{Code::kInvalid, "--json and --server exclude each other; use curl to see the server's JSON"};
  };
  return bind_options(std::move(command), std::move(options), run_chat);
}

}  // namespace ft::cli
