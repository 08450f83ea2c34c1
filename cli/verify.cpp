// `foretoken verify`: the losslessness matrix on a model, as a table and an exit status.
#include <atomic>
#include <fmt/format.h>

#include "cli/bench_prompts.h"
#include "cli/interrupt.h"
#include "cli/loading.h"
#include "cli/option_flags.h"
#include "cli/prompt.h"
#include "cli/report_json.h"
#include "cli/subcommands.h"

namespace ft::cli {
namespace {

constexpr int kMaxPrompts = 16;

struct Options {
  OutputChoice output;
  ModelChoice model;
  int prompts = 2, tokens = 24;
  bool full = false;
};

Result<std::vector<MatrixPrompt>> matrix_prompts(int count, const Loaded& loaded) {
  std::vector<MatrixPrompt> prompts;
  const auto built_in = built_in_prompts();
  for (int i = 0; i < count; ++i) {
    // Beyond the built-in ones: the same again from another place, so that every prompt differs.
    const BuiltInPrompt& from = built_in[static_cast<std::size_t>(i) % built_in.size()];
    const std::string text =
        std::string(static_cast<std::size_t>(i) / built_in.size(), '\n') + std::string(from.text);
    Result<Prompt> prompt = from.raw || !loaded.chat_template
                                ? raw_prompt(text, *loaded.tokenizer)
                                : user_prompt(text, "", std::string(from.tools), std::nullopt, loaded);
    if (!prompt.ok()) return model_error(prompt.error());
    prompts.push_back({std::string(from.name), std::move(prompt->ids)});
  }
  return prompts;
}

std::string table(const MatrixReport& report) {
  std::vector<std::vector<std::string>> rows = {{"cell", "tokens", "drafted", "accepted", "differing"}};
  for (const CellResult& result : report.cells) {
    rows.push_back(
        {result.cell.text(), std::to_string(result.compared), std::to_string(result.drafted),
         std::to_string(result.accepted),
         result.differing == 0 ? "0" : fmt::format("{} ({})", result.differing, result.first_difference)});
  }
  return table_text(rows);
}

Result<int> work(const Options& options, Terminal& terminal) {
  FT_ASSIGN(const std::unique_ptr<Loaded> loaded, load(options.model));
  FT_ASSIGN(const std::vector<MatrixPrompt> prompts, matrix_prompts(options.prompts, *loaded));
  MatrixOptions matrix;
  matrix.backend.name = options.model.backend, matrix.backend.isa = options.model.isa;
  matrix.backend.activations = options.model.activations;
  matrix.tokens = options.tokens, matrix.full = options.full;
  if (options.model.threads > 0) matrix.threads = {options.model.threads};
  const std::string backend = loaded->backend->describe();
  loaded->backend.reset();  // its threads would wait beside those of the cells

  std::atomic<bool> stopped{false};
  Result<MatrixReport> report = [&] {
    const Interrupt interrupt([&stopped] { stopped = true; });
    std::unique_ptr<Progress> bar;
    matrix.progress = [&](std::size_t done, std::size_t cells) {
      if (!bar) bar = std::make_unique<Progress>(terminal, "cells", static_cast<std::int64_t>(cells));
      bar->set(static_cast<std::int64_t>(done), fmt::format("{} of {}", done, cells));
      return !stopped.load();
    };
    return run_matrix(loaded->model, prompts, matrix);
  }();
  if (!report.ok()) return model_error(report.error());

  if (options.output.json) {
    terminal.out(verify_json(*report, loaded->model.name, backend) + "\n");
  } else {
    terminal.out(table(*report));
    terminal.out(fmt::format(
        "\n{} on {}\n{} cells, {} tokens compared with plain decoding, {} differing: ", loaded->model.name,
        backend, report->cells.size(), report->compared, report->differing));
    const bool good = report->identical();
    terminal.out(good ? Style::kGood : Style::kBad, good ? "identical" : "NOT IDENTICAL");
    terminal.out(report->complete ? "\n" : " (stopped early)\n");
  }
  return report->identical() && report->complete ? 0 : 1;
}

}  // namespace

Command verify_command() {
  auto options = std::make_shared<Options>();
  Command command;
  command.name = "verify";
  command.summary = "Prove on a model that speculation changes no token";
  command.examples =
      "  foretoken verify\n"
      "  foretoken verify --model ~/models/Qwen3.5-4B-4bit --tokens 16\n"
      "  foretoken verify --full --prompts 6 --json > matrix.json\n";
  command.flags.group("Matrix");
  command.flags.add_switch("full", options->full, "The whole product of all axes instead of a chosen part");
  command.flags.add("prompts", "N", reads_int(options->prompts, 1, kMaxPrompts),
                    "How many prompts (default 2)");
  command.flags.add("tokens", "N", reads_int(options->tokens, 1, 4096),
                    "Longest answer of a cell (default 24)");
  add_model_flags(command.flags, options->model);
  return bind_options(std::move(command), std::move(options), work);
}

}  // namespace ft::cli
