// `foretoken bench kernels`: measures each instruction of a backend at the sizes of published models.
#include <algorithm>
#include <atomic>
#include <fmt/format.h>

#include "backends/registry.h"
#include "cli/args/option_flags.h"
#include "cli/commands/loading.h"
#include "cli/commands/packed_weights_folder.h"
#include "cli/commands/subcommands.h"
#include "cli/terminal/interrupt.h"
#include "lab/bench_kernels.h"
#include "lab/contention.h"

namespace ft::cli {
namespace {

constexpr const char* kModelPrefix = "qwen3.5-";
constexpr int kQuickRepeats = 2;
constexpr int kMaxRows = 1024;

struct BenchKernelsOptions {
  OutputOptions output;
  ModelOptions machine;  // its backend, isa, bits and threads
  KernelFilter filter;
  std::vector<int> rows;
  int repeats = 7;
  bool quick = false;
};

/// Appends a value that must be one of `choices`.
Setter appends_choice(std::vector<std::string>& target, std::vector<std::string> choices) {
  return [&target, choices = std::move(choices)](const std::string& text) -> Status {
    std::string word;
    FT_TRY(reads_choice(word, choices)(text));
    target.push_back(std::move(word));
    return {};
  };
}

std::vector<std::string> size_names() {
  std::vector<std::string> names;
  for (const std::string& name : shape_names()) {
    if (name.starts_with(kModelPrefix)) names.push_back(name.substr(std::string_view(kModelPrefix).size()));
  }
  return names;
}

Setter reads_rows(std::vector<int>& target) {
  return [&target](const std::string& text) -> Status {
    std::vector<std::int32_t> numbers;
    bool given = false;
    const Status read = reads_ids(numbers, given)(text);
    const bool good = read.ok() && !numbers.empty() && std::ranges::all_of(numbers, [](std::int32_t rows) {
                        return rows >= 1 && rows <= kMaxRows;
                      });
    if (!good) {
      return Error{Code::kInvalid,
                   fmt::format("expected row counts of 1 to {}: 1,2,4; found '{}'", kMaxRows, text)};
    }
    target.assign(numbers.begin(), numbers.end());
    std::sort(target.begin(), target.end());
    target.erase(std::unique(target.begin(), target.end()), target.end());
    return {};
  };
}

Result<int> run_bench_kernels(const BenchKernelsOptions& options, Terminal& terminal) {
  FT_TRY(refuse_twin(options.machine.backend));
  KernelFilter filter = options.filter;
  if (filter.formats.empty()) filter.formats = {"4"};
  for (std::string& model : filter.models) model.insert(0, kModelPrefix);
  std::vector<int> rows = options.rows;
  if (rows.empty()) rows = options.quick ? std::vector<int>{1, 4} : std::vector<int>{1, 2, 3, 4, 6, 8, 16};
  FT_ASSIGN(const std::unique_ptr<Backend> backend, make_backend(backend_options(options.machine)));
  FT_ASSIGN(const std::vector<KernelCase> cases, kernel_cases(filter, *backend));
  KernelBench bench(*backend, options.machine.threads, options.quick ? kQuickRepeats : options.repeats,
                    filter.context);
  std::atomic<bool> stopped{false};
  const Interrupt interrupt([&stopped] { stopped = true; });
  Progress bar(terminal, "measuring", static_cast<std::int64_t>(cases.size()));
  std::vector<KernelFigures> list;
  const Contention contention;
  for (std::size_t i = 0; i < cases.size() && !stopped; ++i) {  // Ctrl-C: the finished cases are reported
    bar.set(static_cast<std::int64_t>(i), fmt::format("{} {}", cases[i].model, cases[i].role));
    Result<std::vector<KernelFigures>> figures = bench.measure(cases[i], rows);
    if (!figures.ok() && figures.error().code == Code::kUnsupported) {
      terminal.note(figures.error().message);
      continue;
    }
    if (!figures.ok()) return figures.error();
    list.insert(list.end(), figures->begin(), figures->end());
  }
  if (options.output.json) {
    terminal.out(kernels_json(list) + "\n");
  } else {
    terminal.out(backend->describe() + "\n\n" + kernels_text(list));
  }
  terminal.flush();
  if (const std::string note = contention_note(contention.others_share()); !note.empty()) terminal.note(note);
  return list.empty() ? 1 : 0;
}

void add_flags(FlagSet& flags, BenchKernelsOptions& options) {
  flags.group("Bench");
  flags.add_list(
      "only", "INSTRUCTION", appends_choice(options.filter.instructions, kernel_instructions()),
      "Instructions to measure: linear, logits, attend, delta_rule ... (repeatable; default: all)");
  flags.add_list("model-size", "SIZE", appends_choice(options.filter.models, size_names()),
                 "Model sizes: 0.8b, 2b, 4b, 9b or 27b (repeatable; default: all)");
  flags.add_list("shape", "SHAPE", appends_text(options.filter.shapes),
                 "Matrix roles (delta_in, attend_in, gate_up, down, head ...) or a custom OUTxIN "
                 "(repeatable; default: all roles)");
  flags.add_list("format", "FORMAT", appends_choice(options.filter.formats, kernel_formats()),
                 "Weight formats: bits of affine weights, mxfp4, mxfp8, nvfp4, bf16, f16 or f32 (repeatable; "
                 "default 4)");
  flags.add("group", "N", reads_int(options.filter.group, 32, 128),
            "Group size of affine weights (default 64)");
  flags.add("rows", "LIST", reads_rows(options.rows),
            "Rows per step (default 1,2,3,4,6,8,16); more than 16 rows count as a prompt");
  flags.add("context", "N", reads_int(options.filter.context, 1, 1 << 20),
            "Context positions that attend reads (default 512)");
  flags.add("repeats", "N", reads_int(options.repeats, 1, 1000), "Samples per figure (default 7)");
  flags.add_switch("quick", options.quick, "Measure one and four rows with two samples each");
}

}  // namespace

Command bench_kernels_command() {
  auto options = std::make_shared<BenchKernelsOptions>();
  Command command;
  command.name = "bench kernels";
  command.summary = "Measure instructions at published model sizes against the read bandwidth";
  command.examples =
      "  foretoken bench kernels --only linear --model-size 4b\n"
      "  foretoken bench kernels --shape 17408x5120 --shape 5120x17408 --rows 1,2,4,8\n"
      "  foretoken bench kernels --only linear --model-size 0.8b --format 4 --format 8 --format bf16 --json\n"
      "  foretoken bench kernels --only attend --context 16384\n";
  add_flags(command.flags, *options);
  command.flags.group("Machine");
  add_backend_flags(command.flags, options->machine);
  add_output_flags(command.flags, options->output);
  command.work = [options](Terminal& terminal) { return run_bench_kernels(*options, terminal); };
  command.json = &options->output.json, command.quiet = &options->output.quiet;
  command.options = options;
  return command;
}

}  // namespace ft::cli
