// `foretoken tune`: trains a drafter for one's own model, on texts that the model writes itself.
#include <fmt/format.h>

#include "cli/args/option_flags.h"
#include "cli/commands/subcommands.h"
#include "cli/commands/tune_comparison.h"
#include "cli/terminal/interrupt.h"

namespace ft::cli {
namespace {

Setter reads_kind(TuneKind& target) {
  return [&target](const std::string& text) -> Status {
    FT_ASSIGN(target, TuneKind::parse(text));
    return {};
  };
}

Result<int> run_tune(const TuneOptions& options, Terminal& terminal) {
  std::atomic<bool> stopped{false};
  const Interrupt interrupt([&stopped] { stopped = true; });
  Result<TuneReport> report = tune(options, stopped, terminal);
  if (!report.ok() && report.error().code == Code::kCancelled && stopped) {
    constexpr int kInterrupted = 130;
    terminal.sentence("foretoken: stopped; the same command continues where it was");
    return kInterrupted;
  }
  if (!report.ok()) return report.error();
  if (options.output.json) {
    terminal.out(tune_report_json(*report) + "\n");
  } else {
    terminal.out(tune_report_text(*report));
  }
  return report->kept ? 0 : 1;
}

}  // namespace

Command tune_command() {
  auto options = std::make_shared<TuneOptions>();
  Command command;
  command.name = "tune";
  command.summary = "Train a drafter for a model, on texts that the model writes itself";
  command.examples =
      "  foretoken tune SmolLM2-135M-Instruct\n"
      "  foretoken tune ~/models/my-finetune --hours 3 --yes\n"
      "  foretoken tune ~/models/my-qwen3.5 --kind mtp    an MTP head, or the one that it has trained "
      "further\n"
      "  foretoken tune ~/models/my-finetune --prompts ~/src/my-program   a drafter for one's own code\n";
  FlagSet& flags = command.flags;
  flags.positional = "model";
  flags.group("Work");
  flags.add("hours", "N", reads_number(options->hours, {0, 1000, true}),
            "Time that writing and training may take together (default 1)");
  flags.add("prompts", "FILE|DIR", reads_text(options->prompts),
            "Your own texts: a file of prompts with an empty line between two, or a folder whose files the "
            "model continues (default: built-in prompts, and turns that the model makes up)");
  flags.add("out", "DIR", reads_file_name(options->out),
            "The drafter's folder, which also holds unfinished work (default: in foretoken's data folder)");
  flags.add("kind", "KIND", reads_kind(options->kind),
            "Kind of drafter: eagle3 (default), mtp (a fresh MTP head, or the model's own trained further; "
            "Qwen3.5 and its relatives) or dflash2");
  flags.add("streams", "N", reads_int(options->streams, 1, 256),
            "Texts that are written at once (default: 8 on a CPU, 64 on a GPU). Never changes a token");
  flags.add("texts", "N", reads_int(options->texts, 1, 10'000'000),
            "Texts to write, instead of as many as the hours allow");
  flags.add("steps", "N", reads_int(options->steps, 1, 100'000'000),
            "Steps of training, instead of as many as the hours allow");
  flags.add(
      "python", "FILE", reads_file_name(options->python),
      "A Python interpreter with PyTorch (default: one that has it, or an environment that tune makes)");
  flags.add_switch("yes", options->yes, "Begin without a question, and fetch PyTorch if it is missing")
      .setting = false;
  flags.add_switch("keep-work", options->keep_work, "Keep the texts and hidden rows").setting = false;
  add_model_flags(flags, options->model, false);
  return bind_options(std::move(command), std::move(options), run_tune);
}

}  // namespace ft::cli
