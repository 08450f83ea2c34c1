// `foretoken verify`: runs the losslessness matrix on a model and prints a table.
#include <algorithm>
#include <atomic>
#include <charconv>
#include <filesystem>
#include <fmt/format.h>

#include "base/clock.h"
#include "base/text_layout.h"
#include "cli/args/option_flags.h"
#include "cli/commands/loading.h"
#include "cli/commands/matrix_prompts.h"
#include "cli/commands/subcommands.h"
#include "cli/library/verified.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/report_json.h"
#include "hub/summary.h"
#include "verify/matrix_constraints.h"

namespace ft::cli {
namespace {

constexpr int kMaxPrompts = 64;
constexpr int kMaxParts = 64;
constexpr int kLongPrompts = 20, kLongTokens = 200;  // minimums of the second part of --full

struct VerifyOptions {
  OutputOptions output;
  ModelOptions model;
  int prompts = 2, tokens = 24;
  DrafterKind drafter = DrafterKind::kAuto;  // the matrix has them all: only folders matter
  bool full = false, summary = false;
  int part = 1, parts = 1;   // --part
  std::int64_t seconds = 0;  // 0: until the end
};

/// "2/8" is the second of eight parts.
Setter reads_part(int& part, int& parts) {
  return [&part, &parts](const std::string& text) -> Status {
    const auto slash = text.find('/');
    const auto number = [](std::string_view digits) {
      int value = 0;
      const auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
      return failed == std::errc() && end == digits.data() + digits.size() ? value : 0;
    };
    const std::string_view all = text;
    const int wanted = slash == std::string::npos ? 0 : number(all.substr(0, slash));
    const int of = slash == std::string::npos ? 0 : number(all.substr(slash + 1));
    if (wanted < 1 || of < wanted || of > kMaxParts) {
      return Error{Code::kInvalid, fmt::format("expected I/N such as 2/8, with I at most N and N at most {}, "
                                               "found '{}'",
                                               kMaxParts, text)};
    }
    part = wanted, parts = of;
    return {};
  };
}

std::string table(const MatrixReport& report) {
  std::vector<std::vector<std::string>> rows = {
      {"cell", "prompts", "compared", "drafted", "accepted", "differing"}};
  for (const CellResult& result : report.cells) {
    rows.push_back(
        {result.cell.text(), fmt::format("{} x {}", result.prompts, result.tokens),
         std::to_string(result.compared), std::to_string(result.drafted), std::to_string(result.accepted),
         result.differing == 0 ? "0" : fmt::format("{} ({})", result.differing, result.first_difference)});
  }
  return table_text(rows);
}

std::string pictures_line(const MatrixReport& report) {
  if (!report.images_problem.empty()) return "no prompt with pictures: " + report.images_problem;
  return fmt::format("{} of {} prompts show pictures", report.pictured, report.prompts);
}

/// Runs one size of the matrix with a progress bar.
Result<MatrixReport> run_part(const LoadedModel& loaded, int prompt_count, MatrixOptions matrix,
                              std::atomic<bool>& stopped, Terminal& terminal) {
  FT_ASSIGN(const std::vector<MatrixPrompt> prompts, matrix_prompts(prompt_count, loaded));
  std::unique_ptr<Progress> bar;
  matrix.progress = [&, in_time = matrix.progress](std::size_t done, std::size_t cells) {
    if (!bar) bar = std::make_unique<Progress>(terminal, "cells", static_cast<std::int64_t>(cells));
    bar->set(static_cast<std::int64_t>(done), fmt::format("{} of {}", done, cells));
    return !stopped.load() && (!in_time || in_time(done, cells));
  };
  Result<MatrixReport> report = run_matrix(loaded.model, prompts, matrix);
  if (!report.ok()) return model_error(report.error());
  return report;
}

/// Runs the requested size; --full runs the whole product, then many prompts with long answers.
Result<MatrixReport> run_parts(const VerifyOptions& options, const LoadedModel& loaded, Terminal& terminal) {
  MatrixOptions matrix;
  matrix.backend = backend_options(options.model);
  matrix.backend.name = loaded.backend_options.name;
  matrix.backend.packed_cache = loaded.packed_cache;
  matrix.tokens = options.tokens;
  matrix.part = options.part, matrix.parts = options.parts;
  matrix.size = options.full ? MatrixSize::kFull : MatrixSize::kQuick;
  if (options.model.threads > 0) matrix.threads = {options.model.threads};
  std::optional<MatrixConstraints> constraints;
  if (loaded.tokenizer && !loaded.model.facts.eos_ids.empty()) {  // a grammar ends with an end token
    constraints.emplace(*loaded.tokenizer, loaded.model.facts.eos_ids, *loaded.chat_format);
    matrix.constrain = [&](SamplingKind kind) { return constraints->make(kind); };
  }
  std::atomic<bool> stopped{false};
  const Interrupt interrupt([&stopped] { stopped = true; });
  if (options.seconds > 0)
    matrix.progress = [end_ns = steady_ns() + options.seconds * 1'000'000'000](std::size_t, std::size_t) {
      return steady_ns() < end_ns;
    };
  FT_ASSIGN(MatrixReport report, run_part(loaded, options.prompts, matrix, stopped, terminal));
  if (!options.full || !report.complete) return report;
  matrix.size = MatrixSize::kLong;
  matrix.tokens = std::max(options.tokens, kLongTokens);
  const int prompts = std::max(options.prompts, kLongPrompts);
  FT_ASSIGN(MatrixReport more, run_part(loaded, prompts, matrix, stopped, terminal));
  report.add(std::move(more));
  return report;
}

/// The tier "verified" of `models` and `inspect`. A record that cannot be written changes nothing here.
void remember(const Model& model, const MatrixReport& report, const std::string& backend,
              Terminal& terminal) {
  std::error_code failed;
  if (!std::filesystem::exists(model.directory, failed)) return;  // a synthetic model
  Verified verified{model.name, hub::summarise_place(model.directory).identity, FORETOKEN_VERSION, backend};
  verified.cells = static_cast<std::int64_t>(report.cells.size()), verified.compared = report.compared;
  std::int64_t drafted = 0, accepted = 0;
  for (const CellResult& cell : report.cells) drafted += cell.drafted, accepted += cell.accepted;
  verified.accepted = drafted > 0 ? static_cast<double>(accepted) / static_cast<double>(drafted) : 0;
  if (const Status status = remember_verified(verified); !status.ok()) terminal.note(status.error().message);
}

Result<int> run_verify(const VerifyOptions& options, Terminal& terminal) {
  FT_ASSIGN(const std::unique_ptr<LoadedModel> loaded, load_with_text_if_any(options.model, &terminal));
  if (!loaded->tokenizer) {
    terminal.note(fmt::format("{} contains no tokenizer.json; the prompts are random token ids",
                              loaded->model.directory));
  }
  const std::string backend = loaded->backend->describe();
  if (loaded->backend->name() != "split")
    loaded->backend_options.name = loaded->backend->name();  // each cell on the same one
  loaded->backend.reset();  // its threads would compete with the cells' threads
  const Result<MatrixReport> report = run_parts(options, *loaded, terminal);
  if (!report.ok()) return report.error();

  if (options.output.json) {
    terminal.out(verify_json(*report, loaded->model.name, backend) + "\n");
  } else {
    if (!options.summary || !report->identical()) terminal.out(table(*report) + "\n");
    terminal.out(fmt::format(
        "{} on {}\n{}\n{} cells, {} tokens compared with plain decoding, {} different: ", loaded->model.name,
        backend, pictures_line(*report), report->cells.size(), report->compared, report->differing));
    const bool good = report->identical();
    terminal.out(good ? Style::kGood : Style::kBad, good ? "identical" : "NOT IDENTICAL");
    terminal.out(report->complete ? "\n" : " (stopped early)\n");
  }
  if (!report->identical() || !report->complete) return 1;
  if (options.parts == 1) remember(loaded->model, *report, backend, terminal);
  return 0;
}

}  // namespace

Command verify_command() {
  auto options = std::make_shared<VerifyOptions>();
  Command command;
  command.name = "verify";
  command.summary = "Check that speculation changes no token of a model's answers";
  command.examples =
      "  foretoken verify\n"
      "  foretoken verify --model ~/models/Qwen3.5-4B-4bit --tokens 16\n"
      "  foretoken verify --full --prompts 6 --json > matrix.json\n"
      "  foretoken verify --model tests/golden/odd   no tokenizer: random ids as prompts\n";
  command.flags.group("Matrix");
  command.flags.add_switch("full", options->full,
                           "Run the whole product of all axes, then 20 prompts of 200 tokens");
  command.flags.add_switch("summary", options->summary, "Print no table of cells unless one differs");
  command.flags.add("part", "I/N", reads_part(options->part, options->parts),
                    "Run only this part of the cells, such as 2/8; parts may run in parallel");
  command.flags.add("seconds", "N", reads_int(options->seconds, 1, 1'000'000),
                    "Stop after this time, report the comparisons so far and exit with 1");
  command.flags.add("prompts", "N", reads_int(options->prompts, 1, kMaxPrompts),
                    "Number of prompts (default 2)");
  command.flags.add("tokens", "N", reads_int(options->tokens, 1, 4096),
                    "Max tokens of an answer (default 24)");
  command.flags.add_list(
      "drafter", "NAME=DIR", reads_drafter(options->drafter, &options->model.drafters),
      "Also verify the drafter in this folder: eagle3=DIR, dflash=DIR, assistant=DIR or model=DIR "
      "(repeatable)");
  add_model_flags(command.flags, options->model);
  return bind_options(std::move(command), std::move(options), run_verify);
}

}  // namespace ft::cli
