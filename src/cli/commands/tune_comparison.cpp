#include "cli/commands/tune_comparison.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/text_file.h"
#include "cli/library/heads.h"
#include "speculation/report_figures.h"
#include "tune/streams.h"

namespace ft::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kHeldOutPrompts = 12;
constexpr int kComparedTokens = 128, kComparedDepth = 3;
constexpr double kMinGain = 1.02;
constexpr std::size_t kMaxBaseCardBytes = std::size_t{1} << 20;

/// The drafters that the model has, with the new one in place of one of its kind.
Result<std::vector<DraftFolder>> with_new(const ComparisonChoice& choice) {
  FT_ASSIGN(std::vector<DraftFolder> folders, found_drafters(choice.directory));
  std::erase_if(folders, [&](const DraftFolder& folder) { return folder.name == choice.drafter.name; });
  folders.push_back(choice.drafter);
  return folders;
}

/// Tokens of the model's answer before it repeats itself, which is easy to draft.
Result<int> tokens_before_repetition(Engine& engine, const LoadedModel& loaded, const BenchCase& bench_case,
                                     const std::atomic<bool>& stopped) {
  GenerateOptions ask = bench_case.ask;
  ask.request.drafter = DrafterKind::kNone;
  FT_ASSIGN(Request request, make_request(bench_case.prompt, ask, loaded));
  FT_ASSIGN(const GatheredAnswer answer, whole_answer(engine, std::move(request), stopped));
  return static_cast<int>(std::max<std::size_t>(1, tune::before_repetition(answer.ids, 0)));
}

/// Tokens a round of each drafter at one depth.
Result<std::vector<std::pair<std::string, double>>> rounds_at_depth(Engine& engine, const LoadedModel& loaded,
                                                                    std::span<const DrafterKind> drafters,
                                                                    const std::vector<BenchCase>& cases,
                                                                    const std::atomic<bool>& stopped) {
  std::vector<std::pair<std::string, double>> found;
  std::vector<int> lengths;
  for (const BenchCase& bench_case : cases) {
    FT_ASSIGN(const int length, tokens_before_repetition(engine, loaded, bench_case, stopped));
    lengths.push_back(length);
  }
  for (const DrafterKind drafter : drafters) {
    if (drafter == DrafterKind::kNone || drafter == DrafterKind::kAuto) continue;
    SpeculationReport sum;
    for (std::size_t i = 0; i < cases.size(); ++i) {
      const BenchCase& bench_case = cases[i];
      GenerateOptions ask = bench_case.ask;
      ask.request.drafter = drafter, ask.request.depth = kComparedDepth;
      ask.request.max_tokens = lengths[i];
      FT_ASSIGN(Request request, make_request(bench_case.prompt, ask, loaded));
      FT_ASSIGN(const GatheredAnswer answer, whole_answer(engine, std::move(request), stopped));
      add(sum, answer.report.speculation);
    }
    found.emplace_back(drafter.name(), tokens_per_round(sum));
  }
  return found;
}

/// The new drafter wins if it has the most tokens a round, a figure without noise of the machine, and is the
/// fastest alone or within `auto`.
void judge(const ComparisonChoice& choice, Comparison& found) {
  const auto longest = std::ranges::max_element(found.at_depth3, {}, &std::pair<std::string, double>::second);
  const bool leads = longest != found.at_depth3.end() && longest->first == choice.drafter.name;
  double mine = 0, best = 0;
  std::string best_name;
  for (const DrafterFigures& figures : found.table.drafters) {
    found.identical = found.identical && figures.identical;
    const double speed = figures.speed.tokens_per_second();
    if (figures.name == choice.drafter.name || (leads && figures.name == DrafterKind::kAuto.name())) {
      mine = std::max(mine, speed);
    } else if (figures.name != DrafterKind::kAuto.name() && speed > best) {
      best = speed, best_name = figures.name;
    }
  }
  const std::string rival = best_name == DrafterKind::kNone.name() ? "plain decoding" : best_name;
  const std::string gain = fmt::format("{:.1f} tokens/s with it, {:.1f} with {}", mine, best, rival);
  if (!found.identical) {
    found.why = "it is not kept: an answer differs from plain decoding; please report this";
  } else if (leads && mine >= kMinGain * best) {
    found.wins = true;
    found.why = fmt::format("it is kept, and --drafter auto uses it: {}", gain);
  } else {
    found.why = fmt::format(
        "it is not kept: {}; more --hours may help, and `foretoken graft --head {} --onto {} --force` keeps "
        "it as it is",
        gain, choice.drafter.directory, choice.directory);
  }
}

/// The line of the model's card with its licence.
std::string licence_of(const std::string& directory) {
  const Result<std::string> card =
      read_text_file((fs::path(directory) / "README.md").string(), kMaxBaseCardBytes);
  if (!card.ok()) return "unknown: the base model has no card here";
  for (const char* key : {"\nlicense:", "\nlicence:"}) {
    const std::size_t at = card->find(key);
    if (at == std::string::npos) continue;
    const std::size_t first = card->find_first_not_of(" ", at + std::string_view(key).size());
    if (first != std::string::npos) return card->substr(first, card->find('\n', first) - first);
  }
  return "see the card of the base model";
}

}  // namespace

Result<Comparison> compare_new_drafter(const ComparisonChoice& choice, const std::atomic<bool>& stopped,
                                       Terminal& terminal) {
  ModelOptions model = choice.model;
  model.directory = choice.directory;
  FT_ASSIGN(model.drafters, with_new(choice));
  FT_ASSIGN(const std::unique_ptr<LoadedModel> loaded, load(model, &terminal));
  FT_ASSIGN(const std::unique_ptr<TunePrompts> prompts,
            TunePrompts::make(choice.prompts, *loaded, choice.lengths));
  FT_ASSIGN(std::vector<Prompt> held_out, prompts->held_out(kHeldOutPrompts));
  std::vector<BenchCase> cases;
  for (Prompt& prompt : held_out) {
    GenerateOptions ask;
    ask.request.sampling = asked(SamplingParams{});
    ask.request.max_tokens = kComparedTokens;
    cases.push_back({std::move(prompt), std::move(ask), "greedy"});
  }
  FT_ASSIGN(const std::unique_ptr<Engine> engine, start_engine(*loaded));
  Comparison found;
  found.table.model = loaded->model.name, found.table.backend = loaded->backend->describe();
  const std::vector<DrafterKind> drafters = benched_drafters(*engine);
  Progress progress(terminal, "comparing", static_cast<std::int64_t>(cases.size()));
  for (std::size_t i = 0; i < cases.size(); ++i) {
    progress.set(static_cast<std::int64_t>(i), cases[i].prompt.name);
    FT_TRY(add_answers(*engine, *loaded, cases[i], drafters, i, stopped, found.table));
  }
  FT_ASSIGN(found.at_depth3, rounds_at_depth(*engine, *loaded, drafters, cases, stopped));
  judge(choice, found);
  return found;
}

std::string drafter_card(const TuneReport& report, const std::string& model_directory) {
  std::string text = fmt::format(
      "# A drafter for {0}\n\n"
      "An EAGLE-3 drafter that `foretoken tune` trained. It makes answers faster and changes none of them:\n"
      "`foretoken run --model MODEL --drafter eagle3=DIR`.\n\n"
      "- Data: {1} texts of {2} tokens that the model wrote itself, and its own distribution as the aim.\n"
      "- Training: {3} steps; loss at the end {4:.3f}.\n"
      "- Draft vocabulary: {5:.1f} % of the tokens of those texts.\n"
      "- Licence of the base model: {6}. It holds for this drafter as well, which is derived from it.\n\n"
      "On {7} prompts that the training did not see, greedy, {8} tokens each, on {9}:\n\n```\n{10}```\n",
      report.model, report.texts, report.tokens, report.steps, report.loss, 100 * report.covered,
      licence_of(model_directory), kHeldOutPrompts, kComparedTokens, report.table.backend,
      drafter_table_text(report.table));
  text += "\nTokens per round at depth 3:";
  for (const auto& [name, tokens] : report.at_depth3) text += fmt::format(" {} {:.2f}", name, tokens);
  return text + "\n";
}

std::string tune_report_json(const TuneReport& report) {
  using Json = nlohmann::ordered_json;
  Json depth3 = Json::object();
  for (const auto& [name, tokens] : report.at_depth3) depth3[name] = tokens;
  return write_json(Json{{"model", report.model},
                         {"folder", report.folder},
                         {"kept", report.kept},
                         {"why", report.kept_why},
                         {"identical", report.identical},
                         {"texts", report.texts},
                         {"tokens", report.tokens},
                         {"steps", report.steps},
                         {"loss", report.loss},
                         {"covered", report.covered},
                         {"accepted", report.accepted},
                         {"tokens_per_round_at_depth_3", std::move(depth3)},
                         {"comparison", read_json<Json>(drafter_table_json(report.table))}});
}

std::string tune_report_text(const TuneReport& report) {
  std::string text = drafter_table_text(report.table) + "\ntokens per round at depth 3:";
  for (const auto& [name, tokens] : report.at_depth3) text += fmt::format(" {} {:.2f}", name, tokens);
  text += fmt::format("\n{}\n{}\n", report.folder, report.kept_why);
  return text;
}

}  // namespace ft::cli
