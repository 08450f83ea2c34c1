// `foretoken setup`: prepares one model without a question: fetches, measures, packs and verifies it.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/args/option_flags.h"
#include "cli/commands/hub_access.h"
#include "cli/commands/model_path.h"
#include "cli/commands/subcommands.h"
#include "cli/library/catalogue.h"
#include "cli/terminal/interrupt.h"
#include "hub/repository.h"

namespace ft::cli {
namespace {

struct SetupOptions {
  OutputOptions output;
  std::string name;
  PullChoice pull;
};

/// Runs a subcommand of this program with these flags. Its answer goes to the terminal's standard output.
Result<int> run_step(const Command& command, const std::vector<std::pair<std::string, std::string>>& flags,
                     Terminal& terminal) {
  for (const auto& [name, value] : flags) {
    const Flag* flag = command.flags.find(name);
    FT_ASSERT(flag != nullptr);
    FT_TRY(flag->set(value));
  }
  return command.work(terminal);
}

Result<int> run_setup(const SetupOptions& options, Terminal& terminal) {
  const Result<std::string> here = find_model(options.name);
  const std::string name = here.ok() ? options.name : repository_of(options.name);
  if (!here.ok()) {
    if (!hub::looks_like_repository(name)) return here.error();
    PullChoice choice = options.pull;
    choice.name = name;
    FT_ASSIGN(const PullOutcome outcome, fetch_model(choice, options.output.quiet, terminal));
    constexpr int kInterrupted = 130;
    if (outcome.interrupted) {
      terminal.sentence("foretoken: " + stopped_text(outcome.kept_bytes));
      return kInterrupted;
    }
  }
  terminal.note("packing and measuring");
  FT_ASSIGN(const int answered, run_step(run_command(),
                                         {{"model", name},
                                          {"prompt", "Hello"},
                                          {"max-tokens", "8"},
                                          {"packed-weights", "auto"},
                                          {"calibration", "auto"}},
                                         terminal));
  if (answered != 0) return answered;
  terminal.out("\n");
  terminal.note("verifying that speculation changes no token");
  FT_ASSIGN(const int verified, run_step(verify_command(), {{"model", name}, {"summary", "true"}}, terminal));
  if (verified != 0) return verified;
  terminal.out(fmt::format("ready: foretoken chat --model {} --packed-weights auto\n", name));
  return 0;
}

}  // namespace

Command setup_command() {
  auto options = std::make_shared<SetupOptions>();
  Command command;
  command.name = "setup";
  command.summary = "Make a model ready: fetch, pack, measure and verify it";
  command.examples = "  foretoken setup mlx-community/Qwen3.5-4B-OptiQ-4bit\n";
  command.flags.group("Model");
  command.flags.positional = "name";
  command.flags
      .add("name", "NAME", reads_model(options->name), "A folder, ORG/NAME or a name of `foretoken models`")
      .setting = false;
  add_pull_flags(command.flags, options->pull);
  command.check = [options]() -> Status {
    if (options->output.json)
      return Error{Code::kInvalid, "setup has no --json; use pull --json and verify --json"};
    if (!options->name.empty()) return {};
    return Error{Code::kInvalid, "the model is missing; use foretoken setup NAME"};
  };
  return bind_options(std::move(command), std::move(options), run_setup);
}

}  // namespace ft::cli
