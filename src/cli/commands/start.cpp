// `foretoken start`: from nothing to a chat. Asks which model and where, at most two questions, and remembers
// the answer once its model has loaded: next time, Enter is enough. Then it becomes `foretoken chat` or
// `foretoken serve`.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "backends/registry.h"
#include "base/json.h"
#include "base/system.h"
#include "base/text_layout.h"
#include "cli/args/option_flags.h"
#include "cli/commands/connection_settings.h"
#include "cli/commands/hub_access.h"
#include "cli/commands/model_path.h"
#include "cli/commands/packed_weights_folder.h"
#include "cli/commands/start_choice.h"
#include "cli/commands/subcommands.h"
#include "cli/library/catalogue.h"
#include "cli/max/thermalforge.h"
#include "cli/terminal/interrupt.h"
#include "hub/repository.h"
#include "lab/machine.h"
#include "models/synthetic/model.h"

namespace ft::cli {
namespace {

using Json = nlohmann::ordered_json;

struct StartOptions {
  OutputOptions output;
  std::string where, model, client;
  std::vector<std::string> folders;
  PullChoice pull;
  bool fresh = false, yes = false, fetch = false, has_model = false, max = false;
};

constexpr int kLeft = 130;  // Ctrl-C, q or the end of input at a question
constexpr const char* kModelHelp =
    "Speeds are estimates from the memory's read speed, without a GPU. A verified model passed `foretoken "
    "verify` here. An MTP head drafts faster than lookup; neither changes an answer. `foretoken tune NAME` "
    "trains a drafter for a model without one.";
constexpr const char* kModeHelp = "A guard restores the fans when the server ends, however it ends.";
constexpr const char* kWhereHelp = "All three talk to the same engine; Ctrl-C ends the server.";

struct StartRequest {
  LastStart choice;
  bool left = false;            // the user left or stopped the download
  std::int64_t kept_bytes = 0;  // of the download
};

std::vector<std::string> targets(const std::string& named) {
  return named == "cli" ? std::vector<std::string>{"chat"} : std::vector<std::string>{named};
}

/// Fetches the model; otherwise sets request.left.
Status fetch(const std::string& name, const StartOptions& options, StartRequest& request,
             Terminal& terminal) {
  PullChoice choice = options.pull;
  choice.name = name;
  FT_ASSIGN(const PullOutcome outcome, fetch_model(choice, options.output.quiet, terminal));
  request.left = outcome.interrupted, request.kept_bytes = outcome.interrupted ? outcome.kept_bytes : 0;
  return {};
}

/// The model exists, and its configuration and the headers of its weights show that it runs.
Status check_here(const std::string& name) {
  if (is_synth_name(name)) return {};
  FT_ASSIGN(const std::string directory, find_model(name));
  const Assessment found = assess(hub::summarise_folder(directory), name, false);
  if (found.runs()) {  // a chat and a server also need a tokenizer
    if (::access((directory + "/tokenizer.json").c_str(), R_OK) == 0) return {};
    return Error{Code::kUnsupported, fmt::format("{} does not run: tokenizer.json is missing or unreadable; "
                                                 "next: fetch the folder again",
                                                 with_tilde(name.empty() ? directory : name))};
  }
  return Error{Code::kUnsupported,
               fmt::format("{} does not run: {}{}", with_tilde(name.empty() ? directory : name), found.reason,
                           found.next.empty() ? "" : "; next: " + found.next)};
}

/// An unknown name may be a repository: asks whether to fetch it, which request.left may end.
Status resolve_model_name(const std::string& typed, const StartOptions& options, Menu* menu,
                          StartRequest& request, Terminal& terminal) {
  std::string& name = request.choice.model;
  FT_TRY(reads_model(name)(typed));
  Status here = check_here(name);
  if (here.ok()) return {};
  if (const CatalogueEntry* entry = find_in_catalogue(typed)) {
    name = entry->repository;
    here = check_here(name);
    if (here.ok()) return {};
  }
  if (menu == nullptr || !hub::looks_like_repository(name) || here.error().code != Code::kNotFound)
    return here;
  const std::optional<bool> agreed =
      menu->confirm(fmt::format("{} is not on this machine; fetch it?", name), true);
  request.left = !agreed || !*agreed;
  if (request.left) return {};
  FT_TRY(fetch(name, options, request, terminal));
  return request.left ? Status() : check_here(name);
}

/// On a Mac this makes the GPU's backend, which runs its self-test.
Room room_here() {
  const std::string gpu = gpu_backend();
  const std::int64_t free = read_machine().free_bytes();
  if (gpu != "metal") return room_for_models(free, gpu, 0);
  BackendOptions options;
  options.name = gpu, options.kernel_folder = kernel_folder();
  const auto made = make_backend(options);
  return room_for_models(free, gpu, made.ok() ? (*made)->limits({}).memory_bytes : 0);
}

/// "Another one" of question 1: asks until a name or a folder fits.
Status ask_name(const StartOptions& options, Menu& menu, StartRequest& request, Terminal& terminal) {
  for (;;) {
    const std::optional<std::string> typed = menu.line("a folder, ORG/NAME or a name: ");
    request.left = !typed || typed->empty() || *typed == "q";
    if (request.left) return {};
    const Status settled = resolve_model_name(*typed, options, &menu, request, terminal);
    if (settled.ok()) return {};
    terminal.sentence(settled.error().message);
  }
}

/// Question 1 of 2.
Status ask_model(const StartOptions& options, Menu& menu, StartRequest& request, Terminal& terminal) {
  const Machine machine = read_machine();
  FT_ASSIGN(const Library library, read_library(options.folders));
  const Room room = room_here();
  const std::vector<ModelOffer> offers =
      offer_models(library, room.bytes, probe_read_bandwidth(machine.logical_cores));
  const std::string title = fmt::format(
      "1 of 2  A model    {} free of {}, {} threads", bytes_text(static_cast<double>(machine.free_bytes())),
      bytes_text(static_cast<double>(machine.memory_total)), machine.logical_cores);
  const std::vector<MenuRow> rows = offer_rows(offers);
  const std::optional<std::size_t> row =
      menu.choose(title, rows, room.sentence + kModelHelp + not_offered(offers, room.bytes));
  request.left = !row;
  if (request.left) return {};
  const auto headings = std::count_if(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(*row),
                                      [](const MenuRow& each) { return each.heading; });
  const ModelOffer& offer = offers[*row - static_cast<std::size_t>(headings)];
  if (offer.kind == ModelOffer::Kind::kOther) return ask_name(options, menu, request, terminal);
  request.choice.model = offer.name;
  return offer.kind == ModelOffer::Kind::kPull ? fetch(offer.name, options, request, terminal) : Status();
}

/// Question 2 of 2; false: the user left.
bool ask_where(Menu& menu, LastStart& choice) {
  const std::vector<MenuRow> rows = {
      {"chat here"}, {"the page in the browser"}, {"a server for OpenAI or Anthropic clients"}};
  const std::optional<std::size_t> row = menu.choose("2 of 2  Where", rows, kWhereHelp);
  if (!row) return false;
  choice.where = *row == 0 ? "chat" : *row == 1 ? "page" : "serve";
  if (choice.where != "serve") return true;
  std::vector<MenuRow> clients = {{"any client: print only the address"}};
  const std::vector<std::string> names = connected_clients();
  for (const std::string& name : names) clients.push_back({name});
  const std::optional<std::size_t> client = menu.choose("Which client", clients, kWhereHelp);
  if (!client) return false;
  if (*client > 0) choice.client = names[*client - 1];
  return true;
}

/// For a server on a Mac whose fans ThermalForge controls: whether they turn at maximum during answers.
/// False: the user left.
bool ask_mode(Menu& menu, LastStart& choice) {
  if (choice.where == "chat") return true;
  const Result<ThermalForge> tool = ThermalForge::find();
  if (!tool.ok()) return true;
  const Result<std::vector<Fan>> fans = tool->status();
  if (!fans.ok() || fans->empty()) return true;
  const std::vector<MenuRow> rows = {{"automatic fans"}, {"Max mode: fans at maximum during answers"}};
  const std::optional<std::size_t> row = menu.choose("Fans", rows, kModeHelp);
  if (!row) return false;
  choice.max = *row == 1;
  return true;
}

/// --max, refused if Max mode is not available.
Status take_max_flag(const StartOptions& options, LastStart& choice) {
  if (!options.max) return {};
  if (choice.where == "chat")
    return Error{Code::kInvalid, "start: Max mode belongs to a server; add --where page or serve"};
  FT_ASSIGN(const ThermalForge tool, ThermalForge::find());
  static_cast<void>(tool);
  choice.max = true;
  return {};
}

/// Without questions: flags, else the last choice, else the first offer of the menu.
Result<StartRequest> choose_alone(const StartOptions& options, const std::optional<LastStart>& last,
                                  Terminal& terminal) {
  StartRequest request;
  LastStart& choice = request.choice;
  choice = {"", options.where.empty() ? "chat" : targets(options.where).front(), options.client};
  if (options.has_model) {
    FT_TRY(resolve_model_name(options.model, options, nullptr, request, terminal));
    return request;
  }
  if (last && !options.fresh) {
    choice.model = last->model;
    if (options.where.empty())
      choice.where = last->where, choice.client = last->client, choice.max = last->max;
    FT_TRY(check_here(choice.model));
    return request;
  }
  const std::int64_t free = room_here().bytes;
  FT_ASSIGN(const Library library, read_library(options.folders));
  const std::vector<ModelOffer> offers = offer_models(library, free);
  const ModelOffer* usual = usual_offer(offers, free, true);
  if (usual == nullptr || (usual->kind == ModelOffer::Kind::kPull && !options.fetch)) {
    return Error{Code::kNotFound,
                 fmt::format("no model on this machine runs and fits in memory; {}",
                             usual == nullptr
                                 ? "name one with --model"
                                 : fmt::format("add --fetch to fetch {} ({}), or name one with "
                                               "--model",
                                               usual->name, bytes_text(static_cast<double>(usual->bytes))))};
  }
  choice.model = usual->name;
  if (usual->kind == ModelOffer::Kind::kPull) FT_TRY(fetch(usual->name, options, request, terminal));
  return request;
}

/// Uses the last choice again. Returns nothing if other questions must follow.
std::optional<StartRequest> ask_repeat(const LastStart& last, Menu& menu, Terminal& terminal) {
  const std::optional<bool> same =
      menu.confirm(fmt::format("Same as last time?  {}, {}", model_text(last.model), where_text(last)), true);
  if (!same) return StartRequest{{}, true};
  if (!*same) return std::nullopt;
  const Status there = check_here(last.model);
  if (there.ok()) return StartRequest{last};
  terminal.sentence(there.error().message);  // an unplugged disk, for example: choose another one
  return std::nullopt;
}

Result<StartRequest> ask(const StartOptions& options, const std::optional<LastStart>& last,
                         Terminal& terminal) {
  Menu menu(terminal);
  StartRequest request;
  LastStart& choice = request.choice;
  terminal.err(Style::kBold, "foretoken start\n");
  if (last && !options.fresh && !options.has_model && options.where.empty()) {
    if (const std::optional<StartRequest> again = ask_repeat(*last, menu, terminal)) return *again;
  }
  if (options.has_model) {
    FT_TRY(resolve_model_name(options.model, options, &menu, request, terminal));
  } else {
    FT_TRY(ask_model(options, menu, request, terminal));
  }
  if (request.left) return request;
  choice.client = options.client;
  if (!options.where.empty()) {
    choice.where = targets(options.where).front();
  } else {
    request.left = !ask_where(menu, choice);
  }
  if (!request.left && !options.max) request.left = !ask_mode(menu, choice);
  return request;
}

/// Becomes the command that does the work, with this program's settings, environment and terminal.
Result<int> become(const LastStart& choice, const StartOptions& options, Terminal& terminal) {
  std::vector<std::string> words = {"foretoken", choice.where == "chat" ? "chat" : "serve"};
  if (!choice.model.empty()) words.insert(words.end(), {"--model", choice.model});
  if (choice.max) words.emplace_back("--max");
  if (options.output.quiet) words.emplace_back("--quiet");
  if (choice.where == "serve" && !choice.client.empty())
    words.insert(words.end(), {"--connect", choice.client});
  terminal.flush();
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const std::string program = program_path();
  ::execv(program.c_str(), arguments.data());
  return Error{Code::kIo, fmt::format("{} cannot be started; run: {}", program, fmt::join(words, " "))};
}

Error needs_terminal(const std::optional<LastStart>& last, Terminal& terminal) {
  terminal.err("foretoken start would ask:\n");
  if (last) {
    terminal.err(fmt::format("  same as last time ({}, {})?      --yes\n", model_text(last->model),
                             where_text(*last)));
  }
  terminal.err(
      "  1 of 2  which model?                 --model NAME (foretoken models lists them), or --yes\n"
      "  2 of 2  chat, the page or a server?  --where chat|page|serve [--client NAME]\n");
  return {Code::kInvalid,
          "start needs a terminal; without one, give --model NAME and --where WHERE, or --yes"};
}

Result<int> run_start(const StartOptions& options, Terminal& terminal) {
  const std::optional<LastStart> last = last_start();
  const bool answered = options.yes || (options.has_model && !options.where.empty());
  StartRequest request;
  if (answered) {
    FT_ASSIGN(request, choose_alone(options, last, terminal));
  } else if (!Menu::can_ask(terminal) || options.output.json) {
    return needs_terminal(last, terminal);
  } else {
    FT_ASSIGN(request, ask(options, last, terminal));
  }
  if (request.left) {
    terminal.err(stopped_text(request.kept_bytes) + "\n");
    return kLeft;
  }
  FT_TRY(take_max_flag(options, request.choice));
  if (options.output.json) {
    terminal.out(write_json(Json{{"model", request.choice.model},
                                 {"where", request.choice.where},
                                 {"client", request.choice.client},
                                 {"max", request.choice.max}}) +
                 "\n");
    return 0;
  }
  FT_TRY(begin_start(request.choice));
  return become(request.choice, options, terminal);
}

}  // namespace

Command start_command() {
  auto options = std::make_shared<StartOptions>();
  Command command;
  command.name = "start";
  command.summary = "Choose a model, fetch it if needed, and chat";
  command.examples =
      "  foretoken start                  asks two questions; next time, press Enter to resume\n"
      "  foretoken start cli              chat in this terminal, whatever the last choice\n"
      "  foretoken start --fresh          ask everything again\n"
      "  foretoken start --model Qwen3.5-4B-OptiQ-4bit --where page\n"
      "  foretoken start --yes --json     the choice without a question, as JSON\n";
  command.flags.group("Choice");
  command.flags.positional = "where";
  command.flags
      .add("where", "WHERE", reads_choice(options->where, {"chat", "cli", "page", "serve"}),
           "chat or cli (in this terminal), page (in the browser) or serve")
      .setting = false;
  command.flags
      .add(
          "model", "NAME",
          [options](const std::string& text) -> Status {
            options->model = text, options->has_model = true;
            return {};
          },
          "Model folder, ORG/NAME or a name of `foretoken models`")
      .letter = "m";
  command.flags
      .add("client", "NAME", reads_choice(options->client, connected_clients()),
           "With serve: print the settings of this client")
      .setting = false;
  command.flags.add_list("folder", "DIR", appends_text(options->folders),
                         "Search this folder for models too");
  command.flags.add_switch("max", options->max, "With page or serve on a Mac: Max mode (foretoken max)")
      .setting = false;
  command.flags.add_switch("fresh", options->fresh, "Forget the last choice").setting = false;
  command.flags
      .add_switch("yes", options->yes,
                  "Ask nothing: use the last choice, else a model of this machine that fits")
      .setting = false;
  command.flags.add_switch("fetch", options->fetch, "With --yes: fetch a model if this machine has none")
      .setting = false;
  add_pull_flags(command.flags, options->pull);
  return bind_options(std::move(command), std::move(options), run_start);
}

}  // namespace ft::cli
