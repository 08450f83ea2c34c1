// `foretoken run`: streams the answer to one prompt.
#include <fmt/format.h>

#include "cli/args/option_flags.h"
#include "cli/commands/answering.h"
#include "cli/commands/subcommands.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/report_json.h"
#include "cli/terminal/streaming.h"

namespace ft::cli {
namespace {

struct RunOptions {
  OutputOptions output;
  ModelOptions model;
  PromptOptions prompt;
  RequestOptions request;
  ConstraintOptions constraint;
  SpeculationOptions speculation;
};

Result<int> answer_prompt(const RunOptions& options, Terminal& terminal) {
  FT_ASSIGN(const std::unique_ptr<LoadedModel> loaded, load(options.model, &terminal));
  FT_ASSIGN(const Prompt prompt, make_prompt(options.prompt, *loaded));
  GenerateOptions ask;
  ask.request = options.request, ask.constraint = options.constraint;
  ask.explain_depth = options.speculation.explain_depth;
  FT_ASSIGN(ask.predicted, read_predicted(options.speculation.predict_file, *loaded->tokenizer));
  FT_ASSIGN(Request request, make_request(prompt, ask, *loaded));
  FT_ASSIGN(const std::unique_ptr<Engine> engine, start_engine(*loaded));
  if (options.speculation.explain_depth) terminal.note(cost_note(*engine));
  FT_ASSIGN(Ticket ticket, engine->submit(std::move(request)));

  RunReport report;
  report.model = loaded->model.name, report.backend = loaded->backend->describe();
  report.wants_logprobs = options.request.logprobs >= 0, report.tokenizer = &*loaded->tokenizer;
  {
    const Interrupt interrupt([&ticket] { ticket.cancel(); });
    Streaming streaming(terminal, options.output.json ? Streaming::Mode::kSilent : Streaming::Mode::kShow);
    report.answer = collect_answer(ticket, [&](const Event& event) {
      streaming.show(event);
      if (terminal.gone()) ticket.cancel();
    });
    streaming.end();
  }
  report.load_ms = loaded->load_ms, report.costs = engine->cost_source();
  if (options.output.json) terminal.out(run_json(report) + "\n");
  if (report.answer.finish == Finish::kError) {
    if (options.output.json) terminal.err(fmt::format("foretoken: {}\n", report.answer.error.message));
    return options.output.json ? Result<int>(1) : report.answer.error;
  }
  terminal.flush();
  if (!options.output.json) terminal.note(answer_note(report.answer));
  return 0;
}

}  // namespace

Command run_command() {
  auto options = std::make_shared<RunOptions>();
  Command command;
  command.name = "run";
  command.summary = "Answer one prompt";
  command.examples =
      "  foretoken run \"Write a Python function that adds two numbers\"\n"
      "  echo \"Name three rivers\" | foretoken run\n"
      "  foretoken run -f notes.txt --system \"Summarise in one line\" --temperature 0\n"
      "  git diff | foretoken run --raw -n 64 --json\n"
      "  foretoken run --messages talk.json --tools tools.json --json\n"
      "  foretoken run -p \"Name a cat and its age\" --json-schema cat.json\n"
      "  foretoken run --prompt-ids 332,807,7 -n 16 --drafter none --json\n";
  command.flags.positional = "prompt";
  add_prompt_flags(command.flags, options->prompt);
  options->request.max_tokens = 512;
  add_answer_flags(command.flags, options->request);
  add_constraint_flags(command.flags, options->constraint, options->request);
  add_sampling_flags(command.flags, options->request);
  add_speculation_flags(command.flags, options->request, options->speculation, &options->model);
  options->model.calibration = "auto";
  add_model_flags(command.flags, options->model);
  add_calibration_flag(command.flags, options->model);
  command.check = [options]() -> Status {
    FT_TRY(check_constraint_flags(options->constraint));
    return check_prompt_flags(options->prompt);
  };
  return bind_options(std::move(command), std::move(options), answer_prompt);
}

}  // namespace ft::cli
