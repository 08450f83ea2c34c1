// `foretoken bench edits`: versions of one file in separate requests, with and without a memory of them.
#include <algorithm>
#include <atomic>

#include "cli/args/option_flags.h"
#include "cli/bench/bench_edits.h"
#include "cli/commands/subcommands.h"
#include "cli/terminal/interrupt.h"

namespace ft::cli {
namespace {

constexpr std::int64_t kMemoryBytes = std::int64_t{64} << 20;  // as the default of `serve`

struct BenchEditsOptions {
  OutputOptions output;
  ModelOptions model;
  RequestOptions request;
  SpeculationOptions speculation;
  int pairs = 3;
};

Result<std::vector<BenchCase>> versions_of(const BenchEditsOptions& options, const LoadedModel& loaded) {
  std::vector<BenchCase> versions;
  for (const std::string& text : edit_requests()) {
    Result<Prompt> prompt = loaded.chat_template ? user_prompt(text, "", "", false, loaded)
                                                 : raw_prompt(text + "\n", *loaded.tokenizer);
    if (!prompt.ok()) return model_error(prompt.error());
    GenerateOptions ask;
    ask.request = options.request;
    ask.request.sampling = asked(SamplingParams());
    ask.explain_depth = options.speculation.explain_depth;
    versions.push_back({std::move(*prompt), std::move(ask), "greedy"});
  }
  return versions;
}

Result<int> run_bench_edits(const BenchEditsOptions& options, Terminal& terminal) {
  FT_ASSIGN(const std::unique_ptr<LoadedModel> loaded, load(options.model, &terminal));
  FT_ASSIGN(const std::vector<BenchCase> versions, versions_of(options, *loaded));
  FT_ASSIGN(const std::unique_ptr<Engine> engine, start_engine(*loaded, kMemoryBytes));
  EditReport report;
  report.model = loaded->model.name, report.backend = loaded->backend->describe();
  std::atomic<bool> stopped{false};
  const Interrupt interrupt([&stopped] { stopped = true; });
  Progress progress(terminal, "pairs", options.pairs);
  std::uint64_t owner = 1;
  for (int pair = 0; pair < options.pairs; ++pair) {
    progress.set(pair, "");
    FT_TRY(add_versions(*engine, *loaded, versions, static_cast<std::size_t>(pair), owner, stopped, report));
  }
  terminal.out(options.output.json ? edits_json(report) + "\n" : edits_text(report));
  const bool identical = std::ranges::all_of(report.ways, &EditFigures::identical);
  return identical || options.request.acceptance != Acceptance::kCoupled ? 0 : 1;
}

}  // namespace

Command bench_edits_command() {
  auto options = std::make_shared<BenchEditsOptions>();
  Command command;
  command.name = "bench edits";
  command.summary = "Write ten versions of a file, with and without lookup across requests";
  command.examples =
      "  foretoken bench edits\n"
      "  foretoken bench edits --model ~/models/Qwen3.5-4B-4bit --pairs 5 --json\n";
  options->request.max_tokens = 128;
  command.flags.group("Bench");
  command.flags.add("pairs", "N", reads_int(options->pairs, 1, 1000),
                    "Repetitions of each variant (default 3)");
  command.flags
      .add("max-tokens", "N", reads_int(options->request.max_tokens, 1, 1 << 20),
           "Max tokens of a version (default 128)")
      .letter = "n";
  add_speculation_flags(command.flags, options->request, options->speculation, &options->model);
  add_model_flags(command.flags, options->model);
  return bind_options(std::move(command), std::move(options), run_bench_edits);
}

}  // namespace ft::cli
