// `foretoken bench`: compares plain and speculative decoding on the same prompts, in pairs.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <fmt/format.h>

#include "base/quantile.h"
#include "base/replace_file.h"
#include "base/text_file.h"
#include "base/text_layout.h"
#include "cli/args/option_flags.h"
#include "cli/bench/bench_drafters.h"
#include "cli/bench/bench_measure.h"
#include "cli/bench/bench_page.h"
#include "cli/commands/subcommands.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/report_json.h"
#include "lab/bench_prompts.h"
#include "speculation/report_figures.h"

namespace ft::cli {
namespace {

constexpr int kQuickTokens = 96;
constexpr int kQuickPrompts = 2;
constexpr std::size_t kMaxPromptsBytes = std::size_t{1} << 20;
constexpr int kQuickPairs = 3;                                // max pairs per prompt
constexpr auto kQuickTime = std::chrono::milliseconds(4500);  // no new pair starts later

struct BenchOptions {
  OutputOptions output;
  ModelOptions model;
  PromptOptions prompt;
  RequestOptions request;
  SpeculationOptions speculation;
  ForcedSchedule forced;
  int pairs = 3;
  bool quick = false, drafters = false;
  std::string prompts;    // a file of prompts; empty: the built-in ones
  std::string html, svg;  // files for the figures of --drafters; empty: none
  bool draws() const { return !html.empty() || !svg.empty(); }
};

bool names_prompt(const PromptOptions& prompt) {
  return prompt.text || prompt.file || prompt.messages || prompt.has_ids;
}

Result<std::vector<std::string>> read_prompts(const std::string& path) {
  FT_ASSIGN(std::string text, read_text_file(path, kMaxPromptsBytes));
  std::vector<std::string> prompts = paragraphs(std::move(text));
  if (prompts.empty()) return Error{Code::kInvalid, path + ": has no prompt; write one a paragraph"};
  return prompts;
}

/// Names of the report: the first words of the prompt.
std::string name_of(const std::string& prompt) {
  constexpr std::size_t kMaxName = 28;
  const std::string line = prompt.substr(0, prompt.find('\n'));
  if (line.size() <= kMaxName) return line;
  const std::size_t blank = line.rfind(' ', kMaxName);
  return line.substr(0, blank == std::string::npos ? kMaxName : blank) + " ...";
}

Result<std::vector<Prompt>> bench_prompts(const BenchOptions& options, const LoadedModel& loaded) {
  std::vector<Prompt> prompts;
  if (names_prompt(options.prompt)) {
    FT_ASSIGN(Prompt prompt, make_prompt(options.prompt, loaded));
    prompt.name = "prompt";
    prompts.push_back(std::move(prompt));
    return prompts;
  }
  std::vector<std::string> texts;
  if (!options.prompts.empty()) {
    FT_ASSIGN(texts, read_prompts(options.prompts));
  }
  std::vector<BuiltInPrompt> asked;
  for (const std::string& text : texts) asked.push_back({"", text, "", false});
  if (asked.empty()) asked.assign(built_in_prompts().begin(), built_in_prompts().end());
  if (options.quick) asked.resize(std::min<std::size_t>(asked.size(), kQuickPrompts));
  for (const BuiltInPrompt& one : asked) {
    const std::string text(one.text);
    const bool raw = one.raw || !loaded.chat_template;
    Result<Prompt> prompt =
        raw ? raw_prompt(text, *loaded.tokenizer)
            : user_prompt(text, options.prompt.system, std::string(one.tools), options.prompt.think, loaded);
    if (!prompt.ok()) return model_error(prompt.error());
    prompt->name = one.name.empty() ? name_of(text) : std::string(one.name);
    prompts.push_back(std::move(*prompt));
  }
  return prompts;
}

/// "greedy", or "temperature 0.6, top_k 20, top_p 0.95, seed 0".
std::string sampler_text(const SamplingParams& sampler) {
  const SamplingParams off;
  const auto changed = [&](bool penalties) {
    std::string text;
    each_sampling_number([&](const auto& number) {
      const auto value = sampler.*number.value;
      if (number.penalty != penalties || value == off.*number.value) return;
      text += fmt::format("{}{} {:g}", text.empty() ? "" : ", ", number.name, static_cast<double>(value));
    });
    return text;
  };
  std::string text =
      sampler.temperature > 0 ? fmt::format("{}, seed {}", changed(false), sampler.seed) : "greedy";
  if (const std::string penalties = changed(true); !penalties.empty()) text += ", " + penalties;
  return text;
}

/// Each prompt greedy and with the model's own sampling, or only as the flags say.
Result<std::vector<BenchCase>> bench_cases(const BenchOptions& options, const LoadedModel& loaded) {
  FT_ASSIGN(const std::vector<Prompt> prompts, bench_prompts(options, loaded));
  std::vector<SamplingParams> samplers;
  SamplingParams own = chosen(options.request.sampling, loaded.model.facts.sampling);
  own.seed = options.request.seed.value_or(0);
  if (any_asked(options.request.sampling) || !options.request.bias.empty()) {
    samplers.push_back(own);
  } else {
    samplers.emplace_back();
    if (own.temperature > 0 && !options.quick) samplers.push_back(own);
  }
  FT_ASSIGN(const std::vector<std::int32_t> predicted,
            read_predicted(options.speculation.predict_file, *loaded.tokenizer));
  std::vector<BenchCase> cases;
  for (const SamplingParams& sampler : samplers) {
    for (const Prompt& prompt : prompts) {
      GenerateOptions ask;
      ask.request = options.request, ask.predicted = predicted;
      ask.explain_depth = options.speculation.explain_depth;
      ask.request.sampling = asked(sampler);
      if (options.quick)
        ask.request.max_tokens = std::min<std::int64_t>(ask.request.max_tokens, kQuickTokens);
      cases.push_back({prompt, std::move(ask), sampler_text(sampler)});
    }
  }
  return cases;
}

std::string prompt_acceptance(const SpeculationReport& report) {
  std::string text;
  for (const double share : acceptance_by_position(report))
    text += fmt::format("{}{:.2f}", text.empty() ? "" : " ", share);
  return text.empty() ? "-" : text;
}

std::string table(const BenchReport& report) {
  std::vector<std::vector<std::string>> rows = {{"prompt", "sampling", "tokens", "plain/s", "speculation/s",
                                                 "ratio", "tokens/round", "accepted by position", "same"}};
  for (const BenchPrompt& prompt : report.prompts) {
    const std::string sampling = prompt.sampling.substr(0, prompt.sampling.find(','));
    rows.push_back({prompt.name, sampling, std::to_string(prompt.plain.tokens),
                    fmt::format("{:.1f}", prompt.plain.tokens_per_second()),
                    fmt::format("{:.1f}", prompt.speculative.tokens_per_second()),
                    fmt::format("{:.2f} x", quantile(prompt.ratios, 0.5)),
                    fmt::format("{:.2f}", tokens_per_round(prompt.speculation)),
                    prompt_acceptance(prompt.speculation), prompt.identical ? "yes" : "NO"});
  }
  return table_text(rows);
}

std::string indented(const std::string& text) {
  std::string out = "    ";
  for (const char c : text) {
    out += c;
    if (c == '\n') out += "    ";
  }
  while (!out.empty() && (out.back() == ' ' || out.back() == '\n')) out.pop_back();
  return out + "\n";
}

void show_quick(const BenchPrompt& prompt, const BenchCase& bench_case, Terminal& terminal) {
  terminal.wraps();
  terminal.out("\n");
  terminal.out(Style::kBold, prompt.name);
  terminal.out(fmt::format(
      " ({}, {} tokens)\n", bench_case.sampling,
      prompt.plain.tokens / static_cast<std::int64_t>(std::max<std::size_t>(1, prompt.ratios.size()))));
  terminal.out(Style::kDim, "  decoded plainly:\n");
  terminal.out(indented(prompt.text));
  terminal.out(Style::kDim, "  decoded speculatively:\n");
  terminal.out(Style::kAccent, indented(prompt.speculative_text));
  terminal.out("  same tokens: ");
  terminal.out(prompt.identical ? Style::kGood : Style::kBad, prompt.identical ? "yes" : "NO");
  terminal.out(fmt::format(" | plain {:.1f} tokens/s | speculative {:.1f} tokens/s | ",
                           prompt.plain.tokens_per_second(), prompt.speculative.tokens_per_second()));
  terminal.out(Style::kBold, fmt::format("{:.2f} x", quantile(prompt.ratios, 0.5)));
  terminal.out(fmt::format(" | {:.2f} tokens per round\n", tokens_per_round(prompt.speculation)));
  terminal.flush();
}

void show_summary(const BenchReport& report, Terminal& terminal) {
  const BenchSummary summary = summarise(report);
  terminal.flush();  // the earlier table keeps its columns
  terminal.wraps();
  terminal.out(fmt::format("\n{} on {}\n", report.model, report.backend));
  terminal.out(fmt::format("plain {:.1f} tokens/s, speculative {:.1f} tokens/s: ",
                           summary.plain.tokens_per_second(), summary.speculative.tokens_per_second()));
  terminal.out(Style::kBold, fmt::format("{:.2f} x", summary.ratio));
  terminal.out(fmt::format(" (single pairs {:.2f} to {:.2f}), {:.2f} tokens per round\n", summary.low,
                           summary.high, tokens_per_round(summary.speculation)));
  terminal.out("identical tokens: ");
  terminal.out(summary.identical ? Style::kGood : Style::kBad, summary.identical ? "yes" : "NO");
  terminal.out(report.expects_identical ? "\n"
                                        : " (rejection sampling keeps the distribution, not the tokens)\n");
  for (const BenchPrompt& prompt : report.prompts) {
    if (prompt.reason.empty()) continue;
    terminal.note(fmt::format("{}: nothing was drafted: {}", prompt.name, prompt.reason));
  }
}

/// Interleaves one pair of every case, so that a slow minute affects all cases.
Status measure(const BenchOptions& options, const std::vector<BenchCase>& cases, BenchMeasure& bench,
               Terminal& terminal, BenchReport& report) {
  const auto start = std::chrono::steady_clock::now();
  const int pairs = options.quick ? std::min(options.pairs, kQuickPairs) : options.pairs;
  Progress progress(terminal, "pairs", static_cast<std::int64_t>(cases.size()) * pairs);
  FT_TRY(bench.warm_up(cases.front()));
  for (const BenchCase& bench_case : cases) {
    BenchPrompt prompt;
    prompt.name = bench_case.prompt.name, prompt.sampling = bench_case.sampling;
    report.prompts.push_back(std::move(prompt));
  }
  std::int64_t done = 0;
  for (int pair = 0; pair < pairs; ++pair) {
    if (options.quick && pair > 0 && std::chrono::steady_clock::now() - start > kQuickTime) break;
    for (std::size_t i = 0; i < cases.size(); ++i) {
      progress.set(done++, cases[i].prompt.name);
      FT_TRY(bench.add_pair(cases[i], report.prompts[i]));
    }
  }
  return {};
}

/// --html and --svg: charts of the same figures, and of the cost of rounds. No engine may run.
Status draw(const BenchOptions& options, const LoadedModel& loaded, const DrafterTable& table,
            const std::atomic<bool>& stopped) {
  constexpr std::int64_t kLongest = 8192;
  BenchPage page;
  page.table = table;
  FT_ASSIGN(page.costs, measure_rounds(measured(loaded), kLongest, stopped));
  if (!options.html.empty()) FT_TRY(replace_file(options.html, bench_page(page)));
  return options.svg.empty() ? Status() : replace_file(options.svg, bench_picture(page));
}

/// --drafters: one table over all prompts.
Result<int> compare_drafters(const BenchOptions& options, const LoadedModel& loaded,
                             const std::vector<BenchCase>& cases, std::unique_ptr<Engine> engine,
                             Terminal& terminal) {
  DrafterTable table;
  table.model = loaded.model.name, table.backend = loaded.backend->describe();
  const std::vector<DrafterKind> drafters = benched_drafters(*engine);
  std::atomic<bool> stopped{false};
  const Interrupt interrupt([&stopped] { stopped = true; });
  Progress progress(terminal, "answers", static_cast<std::int64_t>(cases.size()) * options.pairs);
  std::size_t turn = 0;
  for (int pair = 0; pair < options.pairs; ++pair) {
    for (const BenchCase& bench_case : cases) {
      progress.set(static_cast<std::int64_t>(turn), bench_case.prompt.name);
      FT_TRY(add_answers(*engine, loaded, bench_case, drafters, turn++, stopped, table));
    }
  }
  engine.reset();
  if (options.draws()) FT_TRY(draw(options, loaded, table, stopped));
  if (options.output.json) {
    terminal.out(drafter_table_json(table) + "\n");
  } else {
    terminal.out(drafter_table_text(table));
    terminal.out(fmt::format("\n{} on {}\n", table.model, table.backend));
  }
  bool identical = true;
  for (const DrafterFigures& figures : table.drafters) identical = identical && figures.identical;
  return identical || options.request.acceptance != Acceptance::kCoupled ? 0 : 1;
}

Result<int> run_bench(const BenchOptions& options, Terminal& terminal) {
  FT_ASSIGN(const std::unique_ptr<LoadedModel> loaded, load(options.model, &terminal));
  FT_ASSIGN(const std::vector<BenchCase> cases, bench_cases(options, *loaded));
  FT_ASSIGN(std::unique_ptr<Engine> engine, start_engine(*loaded));
  if (options.drafters) return compare_drafters(options, *loaded, cases, std::move(engine), terminal);
  BenchReport report;
  report.model = loaded->model.name, report.backend = loaded->backend->describe();
  report.expects_identical = options.request.acceptance == Acceptance::kCoupled;
  BenchMeasure bench(*engine, *loaded, options.forced);
  Status measured;
  {
    const Interrupt interrupt([&bench] { bench.cancel(); });
    measured = measure(options, cases, bench, terminal, report);
  }
  // After Ctrl-C the complete pairs are reported.
  if (!measured.ok() && measured.error().code != Code::kCancelled) return measured.error();
  std::erase_if(report.prompts, [](const BenchPrompt& prompt) { return prompt.ratios.empty(); });
  if (report.prompts.empty()) return Error{Code::kCancelled, "stopped before the first pair was complete"};

  if (options.output.json) {
    terminal.out(bench_json(report) + "\n");
  } else {
    for (std::size_t i = 0; options.quick && i < report.prompts.size(); ++i) {
      show_quick(report.prompts[i], cases[i], terminal);
    }
    if (!options.quick) terminal.out(table(report));
    show_summary(report, terminal);
  }
  return summarise(report).identical || !report.expects_identical ? 0 : 1;
}

}  // namespace

Command bench_command() {
  auto options = std::make_shared<BenchOptions>();
  Command command;
  command.name = "bench";
  command.summary = "Compare plain and speculative decoding on the same prompts";
  command.examples =
      "  foretoken bench --quick\n"
      "  foretoken bench --drafters --drafter dflash=DIR --temperature 0 --html drafters.html\n"
      "  foretoken bench --pairs 5 --json > bench.json\n"
      "  foretoken bench --prompts bench/prompts/daily.txt --temperature 0\n"
      "  foretoken bench -p \"Explain recursion\" --temperature 0 --drafter mtp --depth 3\n"
      "  foretoken bench --forced-acceptance 0.9,0.8,0.7 --temperature 0   speed at a given acceptance\n";
  options->request.max_tokens = 128;
  command.flags.group("Bench");
  command.flags.add_switch("quick", options->quick,
                           "Run two short prompts in a few seconds and print their answers");
  command.flags.add_switch("drafters", options->drafters,
                           "Compare all drafters of the model in one table: none, each alone, auto");
  command.flags.add(
      "html", "FILE", reads_text(options->html),
      "With --drafters: also write charts of speed, acceptance and round costs to this HTML file");
  command.flags.add("svg", "FILE", reads_text(options->svg),
                    "With --drafters: also write the charts to this SVG file");
  command.flags.add("prompts", "FILE", reads_text(options->prompts),
                    "Prompts of a text file, with an empty line between two (default: six built-in ones)");
  command.flags.add("pairs", "N", reads_int(options->pairs, 1, 1000), "Pairs per prompt (default 3)");
  command.flags.add(
      "forced-acceptance", "A,B,C", reads_probabilities(options->forced),
      "Acceptance probability of each draft position, with a synthetic drafter (default: real drafts)");
  add_prompt_flags(command.flags, options->prompt);
  add_answer_flags(command.flags, options->request);
  add_sampling_flags(command.flags, options->request);
  add_speculation_flags(command.flags, options->request, options->speculation, &options->model);
  add_model_flags(command.flags, options->model);
  command.check = [options]() -> Status {
    if (options->draws() && !options->drafters)
      return Error{Code::kInvalid, "--html and --svg draw the comparison of drafters; add --drafters"};
    if (static_cast<int>(options->forced.size()) > kMaxDraftTokens) {
      return Error{Code::kInvalid,
                   fmt::format("--forced-acceptance: expected at most {} positions", kMaxDraftTokens)};
    }
    if (!options->prompts.empty() && names_prompt(options->prompt))
      return Error{Code::kInvalid, "--prompts and a single prompt exclude each other; give one of them"};
    return check_prompt_flags(options->prompt);
  };
  return bind_options(std::move(command), std::move(options), run_bench);
}

}  // namespace ft::cli
