// `foretoken bench decode`: measures decoding against the bandwidth limit, with any model or shape.
#include <algorithm>
#include <atomic>
#include <fmt/format.h>
#include <functional>
#include <map>

#include "base/machine_facts.h"
#include "base/replace_file.h"
#include "base/text_file.h"
#include "base/thread_pool.h"
#include "cli/args/option_flags.h"
#include "cli/commands/loading.h"
#include "cli/commands/subcommands.h"
#include "cli/terminal/interrupt.h"
#include "lab/bench_decode.h"
#include "lab/bench_decode_report.h"
#include "lab/bench_scaling.h"
#include "lab/bench_streams.h"
#include "lab/contention.h"
#include "lab/instruction_cost.h"
#include "lab/machine.h"

namespace ft::cli {
namespace {

constexpr int kQuickCycles = 2, kQuickDecodeTokens = 8, kQuickPrompt = 64;
constexpr int kShownRows[] = {1, 4, 8};  // rows of the profile's tables, besides the longest step

struct BenchDecodeOptions {
  OutputOptions output;
  ModelOptions model;
  DecodePlan plan;
  bool quick = false, profile = false;
  std::string trace, html;
  std::vector<int> threads;  // of several measurements; empty: one
  int streams = 0;           // compared with one; 0: only one stream
};

Setter appends_schedule(std::vector<std::vector<double>>& target) {
  return [&target](const std::string& text) -> Status {
    std::vector<double> schedule;
    FT_TRY(reads_probabilities(schedule)(text));
    if (schedule.size() > kMaxDraftTokens) {
      return Error{Code::kInvalid, fmt::format("expected at most {} positions", kMaxDraftTokens)};
    }
    target.push_back(std::move(schedule));
    return {};
  };
}

/// One number as any command takes it, or several.
Setter reads_threads(BenchDecodeOptions& options) {
  return [&options](const std::string& text) -> Status {
    constexpr int kMax = 1024;
    options.threads.clear();
    if (text.find(',') == std::string::npos) return reads_int(options.model.threads, 0, kMax)(text);
    for (std::size_t at = 0; at <= text.size();) {
      const std::size_t end = std::min(text.find(',', at), text.size());
      FT_TRY(reads_int(options.threads.emplace_back(), 1, kMax)(text.substr(at, end - at)));
      at = end + 1;
    }
    return {};
  };
}

DecodePlan plan_of(const BenchDecodeOptions& options) {
  DecodePlan plan = options.plan;
  plan.threads = options.model.threads;
  if (plan.schedules.empty()) plan.schedules = {{0.93, 0.86, 0.75}, {0, 0, 0}};
  if (plan.plain) plan.schedules.clear();
  if (options.quick) {
    plan.cycles = kQuickCycles, plan.tokens = kQuickDecodeTokens, plan.prompts = 2;
    plan.prompt_tokens = std::min(plan.prompt_tokens, kQuickPrompt);
  }
  return plan;
}

/// The tables shown: a few round sizes and the largest prompt chunk of the model, and the usual pass of each
/// program of a drafter; of several streams, rounds with as many rows for each.
std::vector<ProfileTable> shown(std::vector<ProfileTable> tables, int streams = 1) {
  int longest = 0;
  std::map<int, std::int64_t> most_steps;  // by program
  for (const ProfileTable& table : tables) {
    if (table.executable == 0) longest = std::max(longest, table.rows);
    std::int64_t& most = most_steps[table.executable];
    most = std::max<std::int64_t>(most, table.steps);
  }
  std::erase_if(tables, [&](const ProfileTable& table) {
    constexpr int kMaxRowsEach = 4;  // the chunks of a prompt have more
    if (streams > 1 && table.executable != 0) return table.rows != streams;
    if (streams > 1) return table.rows % streams != 0 || table.rows > kMaxRowsEach * streams;
    const bool listed =
        std::find(std::begin(kShownRows), std::end(kShownRows), table.rows) != std::end(kShownRows);
    return table.executable == 0 ? !listed && table.rows != longest
                                 : table.steps < most_steps.at(table.executable);
  });
  return tables;
}

using Reported = std::function<bool(int, int)>;  // done, all; false: stop

/// The result of `bench`, with a progress bar; Ctrl-C ends it.
auto measure(Terminal& terminal, const auto& bench) {
  std::atomic<bool> stopped{false};
  const Interrupt interrupt([&stopped] { stopped = true; });
  std::unique_ptr<Progress> bar;
  return bench(Reported([&](int done, int all) {
    if (!bar) bar = std::make_unique<Progress>(terminal, "measuring", all);
    bar->set(done, fmt::format("{} of {}", done, all));
    return !stopped.load();
  }));
}

/// Not every backend reports its instructions.
void note_absent_profile(const StepProfile& profile, const LoadedModel& loaded, Terminal& terminal) {
  if (!profile.tables().empty()) return;
  terminal.note(
      fmt::format("--profile, --trace: the {} backend does not report its instructions; use "
                  "--backend cpu, cuda or metal",
                  loaded.backend->name()));
}

Result<int> work_on_streams(const BenchDecodeOptions& options, const DecodePlan& decode, Terminal& terminal) {
  StreamsPlan plan{options.streams,  decode.prompt_tokens, decode.cycles, decode.tokens,
                   decode.schedules, decode.seed,          decode.fixed};
  StepWatch watch;
  StepProfile profile;
  FT_ASSIGN(const std::unique_ptr<LoadedModel> loaded, load(options.model, &terminal));
  if (options.profile) loaded->backend = timed(std::move(loaded->backend), watch, &profile);
  FT_ASSIGN(const StreamsFigures figures, measure(terminal, [&](const Reported& report) {
              return measure_streams(measured(*loaded), plan, report);
            }));
  const std::string backend = loaded->backend->describe();
  terminal.out(options.output.json
                   ? streams_json(loaded->model.name, backend, plan, figures) + "\n"
                   : fmt::format("{} on {}\n\n", loaded->model.name, backend) + streams_text(plan, figures));
  if (options.profile && !options.output.json) {
    note_absent_profile(profile, *loaded, terminal);
    for (const ProfileTable& table : shown(profile.tables(), options.streams))
      terminal.out("\n" + table_title(table) + ":\n" + profile_text(table));
  }
  terminal.flush();
  return 0;
}

DecodeReport report_of(const LoadedModel& loaded, const DecodeBench& bench, const DecodePlan& plan) {
  DecodeReport report;
  report.model = loaded.model.name, report.backend = loaded.backend->describe();
  report.draft_vocabulary = loaded.model.draft_vocabulary;
  report.drafted_among = draft_vocabulary_text(loaded.model);
  report.threads = plan.threads > 0 ? plan.threads : usual_workers();
  report.prompt_tokens = plan.prompt_tokens;
  report.load_ms = loaded.load_ms, report.pack_ms = bench.pack_ms();
  report.packed_bytes = bench.decoder().packed_bytes();
  report.figures = bench.figures();
  report.state_bytes = sequence_bytes(loaded.model.target, report.figures.context_last, *loaded.backend);
  report.resident_bytes = resident_bytes();
  return report;
}

Result<DecodeReport> measured(const BenchDecodeOptions& options, Terminal& terminal) {
  const DecodePlan plan = plan_of(options);
  StepWatch watch;
  StepProfile profile;
  const bool profiled = options.profile || !options.trace.empty();
  FT_ASSIGN(const std::unique_ptr<LoadedModel> loaded, load(options.model, &terminal));
  loaded->backend = timed(std::move(loaded->backend), watch, profiled ? &profile : nullptr);
  FT_ASSIGN(const std::unique_ptr<DecodeBench> bench, DecodeBench::make(measured(*loaded), watch, plan));
  const Contention contention;
  FT_TRY(measure(terminal, [&](const Reported& report) { return bench->run(report); }));
  DecodeReport report = report_of(*loaded, *bench, plan);
  report.others_share = contention.others_share();
  if (profiled) note_absent_profile(profile, *loaded, terminal);
  if (options.profile) report.profile = shown(profile.tables());
  if (!options.trace.empty()) FT_TRY(write_text_file(options.trace, profile.trace_json()));
  return report;
}

/// One number of threads after the other, each with a separate backend and copy of the model.
Result<int> work_on_threads(BenchDecodeOptions options, Terminal& terminal) {
  std::vector<DecodeReport> reports;
  for (const int threads : options.threads) {
    options.model.threads = threads;
    FT_ASSIGN(DecodeReport report, measured(options, terminal));
    const std::string note = contention_note(report.others_share);
    if (!note.empty()) terminal.note(fmt::format("{} threads: {}", threads, note));
    reports.push_back(std::move(report));
  }
  terminal.out(options.output.json ? scaling_json(reports) + "\n" : scaling_text(reports));
  if (!options.html.empty()) FT_TRY(replace_file(options.html, scaling_page(reports)));
  terminal.flush();
  return 0;
}

Result<int> run_bench_decode(const BenchDecodeOptions& options, Terminal& terminal) {
  const bool several = !options.threads.empty();
  if (several && (options.streams > 0 || options.profile || !options.trace.empty())) {
    return Error{Code::kInvalid,
                 "--streams, --profile and --trace measure one number of threads; give --threads one number"};
  }
  if (!several && !options.html.empty())
    return Error{Code::kInvalid, "--html draws several numbers of threads; add --threads 1,2,4"};
  if (options.streams > 0 && (options.plan.penalised || options.plan.masked))
    return Error{Code::kInvalid, "--penalised and --masked measure one stream; omit --streams"};
  if (several) return work_on_threads(options, terminal);
  if (options.streams > 0) return work_on_streams(options, plan_of(options), terminal);
  FT_ASSIGN(const DecodeReport report, measured(options, terminal));
  terminal.out(options.output.json ? decode_json(report) + "\n" : decode_text(report));
  terminal.flush();
  if (const std::string note = contention_note(report.others_share); !note.empty()) terminal.note(note);
  return 0;
}

void add_flags(FlagSet& flags, BenchDecodeOptions& options) {
  flags.group("Bench");
  flags.add("prompt-tokens", "N", reads_int(options.plan.prompt_tokens, 2, 1 << 20),
            "Prompt length in tokens (default 512)");
  flags.add("cycles", "N", reads_int(options.plan.cycles, 1, 1000),
            "Cycles; every figure is the median over them (default 5)");
  flags.add("tokens", "N", reads_int(options.plan.tokens, 1, 4096), "Tokens per cycle (default 32)");
  flags.add_list("forced-acceptance", "A,B,C", appends_schedule(options.plan.schedules),
                 "Acceptance probability of each draft position (repeatable; default .93,.86,.75 and 0,0,0)");
  flags.add_list(
      "drafter", "NAME=DIR", reads_draft_folder(options.model.drafters),
      "Time the drafts of this drafter instead of the MTP head's; dflash=synth:dflash2?bits=4 is one of "
      "random weights in the published shape");
  flags.add("streams", "N", reads_int(options.streams, 2, 128),
            "Measure N concurrent streams against one, plain and at the given acceptance");
  flags.add_switch("plain", options.plan.plain, "Measure prompts and plain decoding only");
  flags.add_switch("fixed", options.plan.fixed,
                   "Also measure every fixed depth of a schedule, in addition to the chosen one");
  flags.add_switch("penalised", options.plan.penalised, "Sample with a presence penalty of 1.5");
  flags.add_switch("masked", options.plan.masked,
                   "Give every row a mask of allowed tokens, as a JSON schema does");
  flags.add("seed", "N", reads_seed(options.plan.seed), "Random seed of the prompt's tokens (default 0)");
  flags.add_switch("quick", options.quick, "Measure a short prompt and two short cycles, as a smoke test");
  flags.add_switch("profile", options.profile, "Print the time of a step by instruction");
  flags.add("trace", "FILE", reads_text(options.trace),
            "Write the last steps to FILE for chrome://tracing or ui.perfetto.dev");
  flags.add("html", "FILE", reads_text(options.html),
            "Write the table of several numbers of threads as an HTML page");
  flags
      .add("threads", "N,N", reads_threads(options),
           "Worker threads; 0 (default): one per core. A list measures each number: 1,2,4")
      .letter = "t";
}

}  // namespace

Command bench_decode_command() {
  auto options = std::make_shared<BenchDecodeOptions>();
  Command command;
  command.name = "bench decode";
  command.summary = "Measure tokens/s against the bandwidth limit, cost by rows, and given acceptance";
  command.examples =
      "  foretoken bench decode --model synth:qwen3.5-0.8b?bits=4\n"
      "  foretoken bench decode --model synth:qwen3.5-4b --profile\n"
      "  foretoken bench decode --forced-acceptance .9,.8,.7 --fixed --json > decode.json\n"
      "  foretoken bench decode --threads 1,2,4,8,16 --cycles 3 --html threads.html\n"
      "  foretoken bench decode --streams 8 --forced-acceptance .93,.86,.75\n"
      "  foretoken bench decode --model synth:qwen3.5-27b --drafter dflash=synth:dflash2?bits=4\n"
      "  foretoken bench decode --quick --trace steps.json\n";
  add_flags(command.flags, *options);
  add_model_flags(command.flags, options->model, false);
  return bind_options(std::move(command), std::move(options), run_bench_decode);
}

}  // namespace ft::cli
