#include "cli/commands/tune_work.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/machine_facts.h"
#include "base/replace_file.h"
#include "base/text_file.h"
#include "base/text_layout.h"
#include "cli/commands/model_path.h"
#include "cli/commands/tune_comparison.h"
#include "cli/library/heads.h"
#include "cli/terminal/menu.h"
#include "hub/summary.h"
#include "models/synthetic/model.h"
#include "tune/target_file.h"

namespace ft::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

constexpr const char* kTuneCapture = "tune";
constexpr std::size_t kMaxPlanBytes = std::size_t{1} << 20;
constexpr double kWritingShare = 0.4, kTrainingShare = 0.5;  // of the time; the rest is for comparing
constexpr double kMeasureS = 12;
constexpr int kDraftingStreams = 16;  // with more, drafts cost more than they save
constexpr double kMaxEpochs = 30;

double passed_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::string time_text(double seconds) {
  const auto minutes = static_cast<std::int64_t>(seconds / 60 + 0.5);
  if (minutes < 1) return "less than a minute";
  return minutes < 60 ? fmt::format("{} min", minutes)
                      : fmt::format("{} h {} min", minutes / 60, minutes % 60);
}

/// The place of a drafter that gets no --out.
std::string usual_folder(const std::string& identity, std::string_view kind) {
  const std::string heads = heads_folder();
  if (heads.empty()) return "";
  return fmt::format("{}/tuned/{}-{}", heads.substr(0, heads.rfind('/')), identity, kind);
}

class Work {
 public:
  Work(const TuneOptions& options, const std::atomic<bool>& stopped, Terminal& terminal)
      : options_(options), stopped_(stopped), terminal_(terminal) {}

  Result<TuneReport> run() {
    FT_TRY(identify());
    FT_TRY(load_target());
    FT_ASSIGN(trainer_, find_trainer({options_.python, trainer_folder(), options_.yes}, terminal_));
    FT_TRY(make_plan());
    if (!trained()) {
      FT_TRY(write_texts());
      loaded_.reset();  // the training needs its memory
      FT_TRY(train());
    }
    loaded_.reset();
    FT_TRY(compare());
    return finish();
  }

 private:
  std::string trainer_folder() const {
    const std::string heads = heads_folder();
    return heads.empty() ? work_ + "/trainer" : heads.substr(0, heads.rfind('/')) + "/tune";
  }
  /// Where a drafter that does not win goes: beside the one in OUT that the model uses, if there is one.
  std::string place() const {
    const KeptHead kept = kept_head(directory_);
    const bool in_use = kept.companion && kept.companion->directory == out_;
    return in_use ? out_ + "/rejected" : out_;
  }
  bool trained() const {
    std::error_code ignored;
    return fs::exists(fmt::format("{}/{}", made(), kind().file()), ignored) &&
           fs::exists(work_ + "/trained.json", ignored);
  }
  Status identify();
  Status load_target();
  Status make_plan();
  Status measure_plan();
  std::int64_t bytes_of_shard() const;
  std::int64_t shards_with_room() const;
  Status check_room() const;
  Status agree() const;
  Status write_texts();
  Result<double> write_some(const std::vector<std::int64_t>& shards, double seconds,
                            tune::DatasetProgress& seen);
  std::string job_text(std::int64_t steps) const;
  Status train();
  Status compare();
  Result<TuneReport> finish();

  tune::DatasetPlan dataset() const {
    tune::DatasetPlan plan;
    plan.folder = work_ + "/shards", plan.shards = plan_.shards;
    plan.header = {plan_.model, plan_.prompts, layers_, width_, hidden_, 0};
    return plan;
  }
  std::int64_t prompts_planned() const { return plan_.shards * tune::kPromptsOfShard; }
  Result<std::unique_ptr<Decoder>> decoder() const;
  const TuneKind& kind() const { return options_.kind; }
  /// Where the training leaves the drafter until it has been compared.
  std::string made() const { return work_ + "/drafter"; }
  std::string head_file() const { return work_ + "/head.safetensors"; }
  /// The head that the model has is where the training begins.
  bool continues_head() const { return kind().is_head() && loaded_->model.mtp.has_value(); }
  bool on_gpu() const { return loaded_->backend->name() != "cpu" && loaded_->backend->name() != "ref"; }
  bool drafts() const { return streams() <= kDraftingStreams; }
  int texts_together() const { return on_gpu() ? 16 : 4; }  // that are read in one step
  int streams() const {
    constexpr int kCpu = 8, kGpu = 64;
    if (options_.streams > 0) return options_.streams;
    return on_gpu() ? kGpu : kCpu;
  }

  const TuneOptions& options_;
  const std::atomic<bool>& stopped_;
  Terminal& terminal_;
  std::string directory_, out_, work_;
  std::vector<int> layers_;
  int width_ = 0, hidden_ = 0;  // of the captured rows
  std::unique_ptr<LoadedModel> loaded_;
  std::unique_ptr<TunePrompts> prompts_;
  TuneLengths lengths_;
  Trainer trainer_;
  TunePlan plan_;
  TuneReport report_;
};

Status Work::identify() {
  if (is_synth_name(options_.model.directory))
    return Error{Code::kInvalid, "a synthetic model writes nothing to learn from; name a trained one"};
  FT_ASSIGN(directory_, find_model(options_.model.directory));
  FT_ASSIGN(const Model model, load_named(directory_));
  FT_TRY(kind().check(model));
  plan_.model = hub::summarise_place(directory_).identity;
  plan_.kind = kind().name();
  out_ = options_.out.empty() ? usual_folder(plan_.model, plan_.kind) : options_.out;
  if (out_.empty()) return Error{Code::kIo, "there is no folder for the drafter; give --out DIR"};
  out_ = fs::absolute(out_).lexically_normal().string();
  while (out_.size() > 1 && out_.back() == '/') out_.pop_back();
  work_ = out_ + "/work";
  std::error_code failed;
  fs::create_directories(work_ + "/shards", failed);
  if (failed) return Error{Code::kIo, fmt::format("{} cannot be made: {}", work_, failed.message())};
  return {};
}

Status Work::load_target() {
  ModelOptions choice = options_.model;
  choice.directory = directory_;
  FT_ASSIGN(loaded_, load(choice, &terminal_));
  layers_ = kind().layers(loaded_->model);
  hidden_ = loaded_->model.facts.width;
  width_ = static_cast<int>(layers_.size()) * hidden_;
  // The same model once more, with a program that captures those layers. No decoder exists yet.
  LoadOptions capturing;
  if (!layers_.empty()) capturing.captures = {{kTuneCapture, layers_}};
  FT_ASSIGN(capturing.drafters, found_drafters(directory_));
  FT_ASSIGN(Model model, load_named(directory_, capturing));
  model.facts.eos_ids = loaded_->model.facts.eos_ids;  // the texts have added to them
  loaded_->model = std::move(model);
  report_.model = loaded_->model.name;
  FT_ASSIGN(prompts_, TunePrompts::make(options_.prompts, *loaded_, lengths_));
  plan_.prompts = prompts_->identity();
  return {};
}

Result<std::unique_ptr<Decoder>> Work::decoder() const {
  DecoderOptions options;
  options.slots = streams() + texts_together();
  options.context = lengths_.all() + kMaxDraftTokens + 1;
  if (!drafts()) options.max_depth = 0;
  Result<std::unique_ptr<Decoder>> made = Decoder::make(*loaded_->backend, loaded_->model, options);
  if (!made.ok()) return model_error(made.error());
  return made;
}

/// Writes those shards, or as many as fit into `seconds` if that is more than 0. Returns the time it took.
Result<double> Work::write_some(const std::vector<std::int64_t>& shards, double seconds,
                                tune::DatasetProgress& seen) {
  if (shards.empty()) return 0.0;
  FT_ASSIGN(const std::unique_ptr<Decoder> made, decoder());
  FT_ASSIGN(tune::TextReader reader,
            tune::TextReader::make(*made, layers_.empty() ? "" : kTuneCapture, texts_together()));
  tune::StreamOptions streaming{streams(), {}, drafts()};
  streaming.eos.assign(loaded_->model.facts.eos_ids.begin(), loaded_->model.facts.eos_ids.end());
  const Clock::time_point start = Clock::now();
  Progress progress(terminal_, seconds > 0 ? "measuring" : "writing",
                    static_cast<std::int64_t>(shards.size()) * tune::kPromptsOfShard);
  bool in_time = true;
  const tune::DatasetPlan plan = dataset();
  const auto stop = [&](const tune::DatasetProgress& now) {
    seen = now;
    const double passed = passed_since(start);
    const double left = now.prompts > 0 ? passed / static_cast<double>(now.prompts) *
                                              static_cast<double>(now.all - now.prompts)
                                        : 0;
    progress.set(now.prompts, fmt::format("{} of {} texts, {:.0f} tokens/s, {} left", now.prompts, now.all,
                                          static_cast<double>(now.written.tokens) / passed, time_text(left)));
    in_time = seconds <= 0 || passed < seconds || now.prompts < streams();
    return !in_time || stopped_.load();
  };
  const Status status = tune::write_shards(*made, reader, plan, shards, streaming, prompts_->next(), stop);
  const bool out_of_time = !status.ok() && status.error().code == Code::kCancelled && !in_time && !stopped_;
  if (!status.ok() && !out_of_time) return status.error();
  return passed_since(start);
}

Json plan_json(const TunePlan& plan) {
  return Json{{"version", 1},
              {"model", plan.model},
              {"kind", plan.kind},
              {"prompts", plan.prompts},
              {"shards", plan.shards},
              {"steps", plan.steps},
              {"rows", plan.rows},
              {"length", plan.length},
              {"draft_vocabulary", plan.draft_vocabulary},
              {"threads", plan.threads},
              {"writing_s", plan.writing_s},
              {"training_s", plan.training_s}};
}

/// The plan of earlier work, if there is one. kInvalid if that work had another model, kind or prompts.
Result<std::optional<TunePlan>> read_plan(const std::string& path, const TunePlan& wanted) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return std::optional<TunePlan>();
  FT_ASSIGN(const std::string text, read_text_file(path, kMaxPlanBytes));
  const auto stored = read_json<nlohmann::json>(text);
  TunePlan plan;
  try {
    plan.model = stored.at("model"), plan.kind = stored.at("kind"), plan.prompts = stored.at("prompts");
    plan.shards = stored.at("shards"), plan.steps = stored.at("steps"), plan.rows = stored.at("rows");
    plan.length = stored.at("length"), plan.draft_vocabulary = stored.at("draft_vocabulary");
    plan.threads = stored.at("threads");
    plan.writing_s = stored.at("writing_s"), plan.training_s = stored.at("training_s");
  } catch (const nlohmann::json::exception&) {
    return std::optional<TunePlan>();  // torn: it is made again
  }
  if (plan.model != wanted.model || plan.kind != wanted.kind || plan.prompts != wanted.prompts) {
    return Error{Code::kInvalid,
                 fmt::format("{} holds unfinished work for another model, kind or other prompts; delete its "
                             "folder, or give another --out",
                             path)};
  }
  return std::optional(std::move(plan));
}

Status Work::make_plan() {
  const std::string path = work_ + "/plan.json";
  FT_ASSIGN(const std::optional<TunePlan> earlier, read_plan(path, plan_));
  if (earlier) {
    plan_ = *earlier;
    terminal_.note(fmt::format("continues the work in {}", work_));
    return {};
  }
  const ModelFacts& facts = loaded_->model.facts;
  constexpr int kCpuRows = 2, kGpuRows = 40, kRowUnit = 64;
  plan_.length = (lengths_.all() + kRowUnit) / kRowUnit * kRowUnit;
  plan_.rows = on_gpu() ? kGpuRows : kCpuRows, plan_.threads = options_.model.threads;
  plan_.draft_vocabulary = kind().draft_vocabulary(facts.vocabulary);
  FT_TRY(measure_plan());
  FT_TRY(check_room());
  FT_TRY(agree());
  return replace_file(path, write_json(plan_json(plan_), 1) + "\n");
}

Status Work::measure_plan() {
  const double budget = static_cast<double>(options_.hours.value_or(1)) * 3600;
  plan_.shards = 1, plan_.steps = 1;
  double tokens_each = lengths_.all() / 2.0, tokens_per_second = 0, step_s = 0;
  if (options_.texts == 0) {
    terminal_.note("measuring how fast the model writes");
    tune::DatasetProgress seen;
    // As many shards as keep the streams busy for a while; a complete shard is kept.
    plan_.shards = std::max<std::int64_t>(1, streams() * 4 / tune::kPromptsOfShard);
    FT_ASSIGN(const tune::DatasetCheck found, tune::check_shards(dataset()));
    FT_ASSIGN(const double wrote_s, write_some(found.missing, std::max(kMeasureS, budget / 100), seen));
    if (seen.prompts > 0 && seen.written.tokens > 0) {
      tokens_each = static_cast<double>(seen.written.tokens) / static_cast<double>(seen.prompts);
      tokens_per_second = static_cast<double>(seen.written.tokens) / wrote_s;
    }
  }
  if (options_.steps == 0) {
    terminal_.note("measuring how fast it learns");
    const std::string job = work_ + "/measure.json";
    FT_TRY(replace_file(job, job_text(1)));
    FT_ASSIGN(const nlohmann::json found, run_trainer(
                                              trainer_, "measure", job, [](const nlohmann::json&) {},
                                              [this] { return stopped_.load(); }));
    step_s = found.value("seconds_a_step", 0.0);
  }
  const double shard_tokens = tokens_each * tune::kPromptsOfShard;
  const auto up = [](std::int64_t texts) {
    return (texts + tune::kPromptsOfShard - 1) / tune::kPromptsOfShard;
  };
  plan_.shards = options_.texts > 0
                     ? up(options_.texts)
                     : std::max<std::int64_t>(2, static_cast<std::int64_t>(budget * kWritingShare *
                                                                           tokens_per_second / shard_tokens));
  plan_.shard_tokens = static_cast<std::int64_t>(shard_tokens);
  if (options_.texts == 0) plan_.shards = std::min(plan_.shards, shards_with_room());
  const double epoch = static_cast<double>(plan_.shards) * shard_tokens / (plan_.rows * plan_.length);
  plan_.steps = options_.steps;
  if (plan_.steps == 0) {
    const double wanted = step_s > 0 ? budget * kTrainingShare / step_s : 1;
    plan_.steps = std::max<std::int64_t>(20, static_cast<std::int64_t>(std::min(wanted, kMaxEpochs * epoch)));
  }
  const double all_tokens = static_cast<double>(plan_.shards) * shard_tokens;
  plan_.writing_s = tokens_per_second > 0 ? all_tokens / tokens_per_second : 0;
  plan_.training_s = static_cast<double>(plan_.steps) * step_s;
  return {};
}

std::int64_t Work::bytes_of_shard() const {
  constexpr double kLonger = 1.15;  // than those that were measured
  const auto tokens = static_cast<std::int64_t>(kLonger * static_cast<double>(plan_.shard_tokens));
  return tune::shard_bytes(dataset().header, tune::kPromptsOfShard, tokens);
}

/// The number of shards that may fill most of the disk.
std::int64_t Work::shards_with_room() const {
  constexpr double kShare = 0.85;
  std::error_code failed;
  const fs::space_info space = fs::space(work_, failed);
  if (failed) return plan_.shards;
  return std::max<std::int64_t>(
      2, static_cast<std::int64_t>(kShare * static_cast<double>(space.available)) / bytes_of_shard());
}

Status Work::check_room() const {
  constexpr double kSpare = 1.1;
  constexpr std::int64_t kBytesOfWeight = 16;  // of a trained one, with its gradient and two moments
  const ModelFacts& facts = loaded_->model.facts;
  const std::int64_t hidden = facts.width;
  const std::int64_t weights = kind().weights(loaded_->model, width_, plan_.draft_vocabulary);
  const std::int64_t disk = plan_.shards * bytes_of_shard() + tune::target_file_bytes(loaded_->model) +
                            2 * weights * kBytesOfWeight;
  std::error_code failed;
  const fs::space_info space = fs::space(work_, failed);
  if (!failed && static_cast<double>(space.available) < kSpare * static_cast<double>(disk)) {
    return Error{Code::kExhausted,
                 fmt::format("tune needs up to {} in {}, which has {} free; give --out on another disk, or "
                             "fewer --hours",
                             bytes_text(static_cast<double>(disk)), work_,
                             bytes_text(static_cast<double>(space.available)))};
  }
  const std::int64_t memory = weights * kBytesOfWeight + hidden * facts.vocabulary * 8;
  if (const MemoryFacts machine = memory_facts(); machine.available > 0 && memory > machine.available) {
    return Error{Code::kExhausted, fmt::format("the training needs about {} of memory, and {} are free; "
                                               "close other programs",
                                               bytes_text(static_cast<double>(memory)),
                                               bytes_text(static_cast<double>(machine.available)))};
  }
  terminal_.note(fmt::format("{} texts, then {} steps of {} tokens; at most {} in {}", prompts_planned(),
                             plan_.steps, plan_.rows * plan_.length, bytes_text(static_cast<double>(disk)),
                             work_));
  return {};
}

Status Work::agree() const {
  const double all = plan_.writing_s + plan_.training_s;
  if (all > 0)
    terminal_.note(fmt::format("this takes about {}: writing {}, training {}", time_text(all),
                               time_text(plan_.writing_s), time_text(plan_.training_s)));
  if (options_.yes) return {};
  if (!Menu::can_ask(terminal_))
    return Error{Code::kInvalid, "tune asks before it begins; without a terminal, add --yes"};
  if (Menu(terminal_).confirm("Begin?", true).value_or(false)) return {};
  return Error{Code::kCancelled, "stopped; nothing was trained"};
}

Status Work::write_texts() {
  const tune::DatasetPlan plan = dataset();
  FT_ASSIGN(const tune::DatasetCheck found, tune::check_shards(plan));
  tune::DatasetProgress seen;
  FT_TRY(write_some(found.missing, 0, seen));
  report_.texts = found.whole.documents + seen.written.documents;
  report_.tokens = found.whole.tokens + seen.written.tokens;
  if (report_.texts == 0)
    return Error{Code::kInvalid, "the model wrote no usable text for these prompts; give other --prompts"};
  FT_TRY(replace_file(work_ + "/job.json", job_text(plan_.steps)));
  const std::string path = work_ + "/target.safetensors";
  std::error_code ignored;
  if (!fs::exists(path, ignored)) FT_TRY(tune::write_target_file(path, loaded_->model));
  if (continues_head() && !fs::exists(head_file(), ignored))
    return tune::write_head_file(head_file(), *loaded_->model.mtp);
  return {};
}

std::string Work::job_text(std::int64_t steps) const {
  const ModelFacts& facts = loaded_->model.facts;
  Json shards = Json::array();
  for (std::int64_t i = 0; i < plan_.shards; ++i) shards.push_back(tune::shard_path(dataset(), i));
  Json job{{"kind", plan_.kind},
           {"shards", std::move(shards)},
           {"target", work_ + "/target.safetensors"},
           {"out", made()},
           {"checkpoint", work_ + "/checkpoint.pt"},
           {"hidden", facts.width},
           {"vocabulary", facts.vocabulary},
           {"context", facts.context},
           {"layers", layers_},
           {"eos", facts.eos_ids},
           {"softcap", tune::target_logits(loaded_->model.target)->softcap},
           {"draft_vocabulary", plan_.draft_vocabulary},
           {"steps", steps},
           {"rows", plan_.rows},
           {"length", plan_.length},
           {"threads", plan_.threads}};
  job.update(kind().sizes(loaded_->model));
  constexpr double kRate = 1e-3, kHeadRate = 3e-4;  // a third of a fresh one's: what the head knows stays
  if (continues_head()) job["head"] = head_file(), job["rate"] = kRate, job["head_rate"] = kHeadRate;
  return write_json(job, 1) + "\n";
}

Status Work::train() {
  const std::string job = work_ + "/job.json";
  Progress progress(terminal_, "training", plan_.steps);
  const Clock::time_point start = Clock::now();
  std::int64_t first = -1;
  const auto show = [&](const nlohmann::json& line) {
    const std::int64_t step = line.value("step", std::int64_t{0});
    if (first < 0) first = step;
    const auto done = static_cast<double>(step - first);
    const double left =
        done > 0 ? passed_since(start) / done * static_cast<double>(plan_.steps - step) : plan_.training_s;
    std::string accepted;
    for (const auto& share : line.value("accepted", nlohmann::json::array()))
      accepted += fmt::format(" {:.2f}", share.get<double>());
    const auto loss = line.find("loss");
    progress.set(step, loss == line.end() || !loss->is_number()
                           ? std::string("begins")
                           : fmt::format("loss {:.2f}, accepted{}, {} left", loss->get<double>(), accepted,
                                         time_text(left)));
  };
  FT_ASSIGN(const nlohmann::json last,
            run_trainer(trainer_, "train", job, show, [this] { return stopped_.load(); }));
  if (last.value("phase", "") != "done")
    return Error{Code::kIo, fmt::format("the training ended early; its messages are in {}", trainer_.log)};
  return replace_file(work_ + "/trained.json", write_json(last) + "\n");
}

Status Work::compare() {
  terminal_.note("comparing it with the other drafters on prompts that it has not seen");
  ComparisonChoice choice{options_.model, directory_, kind(), made(), place(), options_.prompts, lengths_};
  FT_ASSIGN(Comparison found, compare_new_drafter(choice, stopped_, terminal_));
  report_.table = std::move(found.table), report_.at_depth3 = std::move(found.at_depth3);
  report_.identical = found.identical, report_.kept_why = found.why, report_.kept = found.wins;
  return {};
}

Result<TuneReport> Work::finish() {
  FT_ASSIGN(const std::string text, read_text_file(work_ + "/trained.json", kMaxPlanBytes));
  const auto trained = read_json<nlohmann::json>(text);
  report_.kind = kind();
  report_.folder = out_, report_.steps = plan_.steps;
  report_.loss = trained.value("loss", 0.0), report_.covered = trained.value("covered", 0.0);
  report_.accepted = trained.value("accepted", std::vector<double>());
  report_.tokens = trained.value("tokens", report_.tokens);
  if (!report_.kept) report_.folder = place();
  std::error_code ignored;
  fs::create_directories(report_.folder, ignored);  // writing reports it
  FT_TRY(replace_file(report_.folder + "/README.md", drafter_card(report_, directory_)));
  for (const std::string& name : {std::string(kind().file()), std::string("config.json")}) {
    std::error_code failed;
    fs::copy_file(fmt::format("{}/{}", made(), name), fmt::format("{}/{}", report_.folder, name),
                  fs::copy_options::overwrite_existing, failed);
    if (failed) return Error{Code::kIo, fmt::format("{}/{}: {}", report_.folder, name, failed.message())};
  }
  if (report_.kept) {
    FT_TRY(kind().is_head() ? keep_head(directory_, out_)
                            : keep_companion(directory_, {std::string(kind().drafter()), out_}));
  }
  if (!options_.keep_work) fs::remove_all(work_, ignored);
  return report_;
}

}  // namespace

Result<TuneReport> tune(const TuneOptions& options, const std::atomic<bool>& stopped, Terminal& terminal) {
  return Work(options, stopped, terminal).run();
}

}  // namespace ft::cli
