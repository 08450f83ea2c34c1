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

/// The model with the drafters that it has or, if `with_new`, with the new one in the place of its kind.
Result<std::unique_ptr<LoadedModel>> load_for(const ComparisonChoice& choice, bool with_new,
                                              Terminal& terminal) {
  ModelOptions model = choice.model;
  model.directory = choice.directory;
  FT_ASSIGN(model.drafters, found_drafters(choice.directory));
  const std::string name(choice.kind.drafter());
  const bool new_folder = with_new && !choice.kind.is_head();
  if (new_folder) {
    std::erase_if(model.drafters, [&](const DraftFolder& folder) { return folder.name == name; });
    model.drafters.push_back({name, choice.folder});
  }
  FT_ASSIGN(std::unique_ptr<LoadedModel> loaded, load(model, &terminal));
  if (!with_new || !choice.kind.is_head()) return loaded;
  // The same model once more, with the new head. No decoder exists yet.
  LoadOptions options;
  options.draft_vocab_size = model.draft_vocab_size, options.draft_bits = model.draft_bits;
  options.drafters = model.drafters, options.head_directory = choice.folder;
  const std::vector<int> ends = loaded->model.facts.eos_ids;  // the texts have added to them
  FT_ASSIGN(loaded->model, load_named(choice.directory, options));
  loaded->model.facts.eos_ids = ends;
  if (!loaded->model.mtp_head.usable())
    return Error{Code::kCorrupt,
                 fmt::format("the new head is not usable: {}", loaded->model.mtp_head.sentence)};
  return loaded;
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
  const std::string name(choice.kind.drafter());
  double own_rounds = 0, other_rounds = 0;
  for (const auto& [drafter, tokens] : found.at_depth3) {
    double& most = drafter == name ? own_rounds : other_rounds;
    most = std::max(most, tokens);
  }
  const bool leads = own_rounds > other_rounds;
  double mine = 0, best = 0;
  std::string best_name;
  for (const DrafterFigures& figures : found.table.drafters) {
    found.identical = found.identical && figures.identical;
    const double speed = figures.speed.tokens_per_second();
    if (figures.name == name || (leads && figures.name == DrafterKind::kAuto.name())) {
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
    const std::string way =
        choice.kind.is_head()
            ? fmt::format("a copy of {}/mtp.safetensors in {}", choice.place, choice.directory)
            : fmt::format("`foretoken graft --head {} --onto {} --force`", choice.place, choice.directory);
    found.why = fmt::format("it is not kept: {}; more --hours may help, and {} keeps it as it is", gain, way);
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

Result<std::vector<BenchCase>> held_out_cases(const ComparisonChoice& choice, const LoadedModel& loaded) {
  FT_ASSIGN(const std::unique_ptr<TunePrompts> prompts,
            TunePrompts::make(choice.prompts, loaded, choice.lengths));
  FT_ASSIGN(std::vector<Prompt> held_out, prompts->held_out(kHeldOutPrompts));
  std::vector<BenchCase> cases;
  for (Prompt& prompt : held_out) {
    GenerateOptions ask;
    ask.request.sampling = asked(SamplingParams{});
    ask.request.max_tokens = kComparedTokens;
    cases.push_back({std::move(prompt), std::move(ask), "greedy"});
  }
  return cases;
}

bool has_drafter(const Model& model, const TuneKind& kind) {
  if (kind.is_head()) return model.mtp.has_value();
  return std::ranges::find(model.drafters, kind.drafter(), &DraftNetwork::name) != model.drafters.end();
}

/// With the new drafter all of them; before it only the one of its kind, if the model has one.
Result<Comparison> compare_once(const ComparisonChoice& choice, bool with_new,
                                const std::atomic<bool>& stopped, Terminal& terminal) {
  FT_ASSIGN(const std::unique_ptr<LoadedModel> loaded, load_for(choice, with_new, terminal));
  if (!with_new && !has_drafter(loaded->model, choice.kind)) return Comparison();
  FT_ASSIGN(const std::vector<BenchCase> cases, held_out_cases(choice, *loaded));
  FT_ASSIGN(const std::unique_ptr<Engine> engine, start_engine(*loaded));
  Comparison found;
  found.table.model = loaded->model.name, found.table.backend = loaded->backend->describe();
  std::vector<DrafterKind> drafters = benched_drafters(*engine);
  if (!with_new) drafters = {DrafterKind::kNone, DrafterKind(choice.kind.drafter())};
  Progress progress(terminal, with_new ? "comparing" : "before", static_cast<std::int64_t>(cases.size()));
  for (std::size_t i = 0; i < cases.size(); ++i) {
    progress.set(static_cast<std::int64_t>(i), cases[i].prompt.name);
    FT_TRY(add_answers(*engine, *loaded, cases[i], drafters, i, stopped, found.table));
  }
  FT_ASSIGN(found.at_depth3, rounds_at_depth(*engine, *loaded, drafters, cases, stopped));
  return found;
}

}  // namespace

Result<Comparison> compare_new_drafter(const ComparisonChoice& choice, const std::atomic<bool>& stopped,
                                       Terminal& terminal) {
  FT_ASSIGN(Comparison before, compare_once(choice, false, stopped, terminal));
  FT_ASSIGN(Comparison found, compare_once(choice, true, stopped, terminal));
  const std::string name = fmt::format("{} before", choice.kind.drafter());
  for (DrafterFigures& figures : before.table.drafters) {
    if (figures.name != choice.kind.drafter()) continue;
    figures.name = name;
    found.table.drafters.insert(found.table.drafters.end() - 1, std::move(figures));
  }
  for (const auto& [drafter, tokens] : before.at_depth3) found.at_depth3.emplace_back(name, tokens);
  judge(choice, found);
  return found;
}

std::string drafter_card(const TuneReport& report, const std::string& model_directory) {
  const std::string use =
      report.kind.is_head()
          ? "a copy of `mtp.safetensors` in the model's folder is found by every start"
          : fmt::format("`foretoken run --model MODEL --drafter {}=DIR`", report.kind.drafter());
  std::string text = fmt::format(
      "# A drafter for {0}\n\n"
      "{11} that `foretoken tune` trained. It makes answers faster and changes none of them:\n{12}.\n\n"
      "- Data: {1} texts of {2} tokens that the model wrote itself, and its own distribution as the aim.\n"
      "- Training: {3} steps; loss at the end {4:.3f}.\n"
      "- Draft vocabulary: {5:.1f} % of the tokens of those texts.\n"
      "- Licence of the base model: {6}. It holds for this drafter as well, which is derived from it.\n\n"
      "On {7} prompts that the training did not see, greedy, {8} tokens each, on {9}:\n\n```\n{10}```\n",
      report.model, report.texts, report.tokens, report.steps, report.loss, 100 * report.covered,
      licence_of(model_directory), report.table.drafters.empty() ? 0 : report.table.drafters.front().answers,
      kComparedTokens, report.table.backend, drafter_table_text(report.table), report.kind.words(), use);
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
