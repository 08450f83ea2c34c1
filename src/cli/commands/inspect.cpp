// `foretoken inspect`: shows a model's sizes, its memory and its drafter.
#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <optional>

#include "backends/registry.h"
#include "base/json.h"
#include "base/text_layout.h"
#include "cli/args/option_flags.h"
#include "cli/commands/hub_access.h"
#include "cli/commands/inspection.h"
#include "cli/commands/loading.h"
#include "cli/commands/model_path.h"
#include "cli/commands/subcommands.h"
#include "cli/library/catalogue.h"
#include "cli/library/head_donors.h"
#include "cli/library/heads.h"
#include "cli/library/library.h"
#include "cli/terminal/report_json.h"
#include "models/synthetic/model.h"

namespace ft::cli {
namespace {

struct InspectOptions {
  OutputOptions output;
  std::string model;
  std::int64_t context = 0;
  BackendSettings settings;
  bool program = false, remote = false;
  std::string packed_cache = "off";
  std::string require;  // "runs", "drafted" or empty
  std::string named;    // the repository whose folder `model` is; empty: `model` itself

  const std::string& name() const { return named.empty() ? model : named; }
};

std::string parameters_text(const Inspection& found) {
  std::string all = count_text(found.parameters);
  if (found.active_parameters == found.parameters) return all;
  return fmt::format("{}, {} per token", all, count_text(found.active_parameters));
}

/// "ready", or "none: " and the reason; the sentence names its subject so that it can be read alone.
std::string head_text(const Inspection& found) {
  constexpr std::string_view kSubject = "MTP head: ";
  std::string_view reason = found.head_sentence;
  if (reason.starts_with(kSubject)) reason.remove_prefix(kSubject.size());
  return reason.empty() ? found.head_state : fmt::format("{}: {}", found.head_state, reason);
}

void show(const Inspection& found, Terminal& terminal) {
  const auto size = [](std::int64_t bytes) { return bytes_text(static_cast<double>(bytes)); };
  std::vector<std::vector<std::string>> rows = {
      {"model", found.directory},
      {"family", found.family},
      {"parameters", parameters_text(found)},
      {"quantisation", found.quantisation},
      {"file", fmt::format("{}, {} read for one token", size(found.file_bytes), size(found.step_bytes))},
      {"layers", fmt::format("{}, {} of them full attention", found.layers, found.full_attention_layers)},
      {"width", fmt::format("hidden {}, MLP {}, heads {} / {} of {}", found.hidden, found.intermediate,
                            found.heads, found.kv_heads, found.head_dim)},
      {"vocabulary",
       fmt::format("{}{}", found.vocabulary, found.tied ? ", LM head tied to the embedding" : "")},
      {"context", fmt::format("up to {}", found.max_context)},
      {"memory", fmt::format("{} weights + {} state at {} tokens{} = {}; {} are free",
                             size(found.weight_bytes), size(found.state_bytes), found.context,
                             found.image_bytes > 0 ? " + " + size(found.image_bytes) + " for pictures" : "",
                             size(found.memory_needed), size(found.memory_available))},
      {"verdict", found.verdict},
      {"on the GPU", found.gpu.empty() ? "no GPU is used here" : found.gpu},
      {"tier", found.tier.empty() ? "none: a synthetic model" : found.tier + ": " + found.tier_reason},
      {"vision tower", tower_text(found)},
      {"MTP head", head_text(found)},
      {"drafter", found.drafted_among.empty()
                      ? found.drafter
                      : fmt::format("{}, drafting from {}", found.drafter, found.drafted_among)},
  };
  if (found.experts > 0) {
    const auto layers = std::ranges::find(rows, "layers", [](const auto& row) { return row.front(); });
    rows.insert(layers + 1,
                {"experts", fmt::format("{} of width {} in a layer, {} per token: {} of {} are read",
                                        found.experts, found.expert_size, found.experts_per_token,
                                        size(found.step_bytes), size(found.held_bytes))});
  }
  for (const std::string& note : found.notes) rows.push_back({"note", note});
  for (const std::string& donor : found.head_donors) rows.push_back({"heads that fit", donor});
  for (const std::string& device : found.devices) rows.push_back({"device", device});
  if (!found.tune.empty()) rows.push_back({"trains a drafter", found.tune});
  if (!found.packed_cache.folder.empty()) {
    rows.push_back(
        {"packed weights", fmt::format("{} file{}, {} in {}", found.packed_cache.files,
                                       found.packed_cache.files == 1 ? "" : "s",
                                       size(found.packed_cache.bytes), found.packed_cache.folder)});
  }
  terminal.wraps();
  terminal.out(table_text(rows));
  if (!found.program.empty()) terminal.out("\n" + found.program);
}

/// A model that does not run is not an error of inspect; the report has the reason and the next step. A
/// damaged folder is an error.
std::optional<Assessment> what_does_not_run(const std::string& named, const std::string& shown) {
  if (is_synth_name(named)) return std::nullopt;
  std::string directory = named;
  std::error_code failed;
  if (named.empty() || !std::filesystem::exists(named, failed)) {
    const Result<KnownModel> known = find_known(named);
    if (named.empty() || !known.ok()) return std::nullopt;
    directory = known->found.directory;
  }
  const hub::ModelSummary summary = hub::summarise_place(directory);
  const Assessment found = assess(summary, shown, true);
  const bool unknown = found.tier == Tier::kIncompatible && !summary.architecture.empty();
  const bool foreign = found.tier == Tier::kConvertible;
  return unknown || foreign ? std::optional(found) : std::nullopt;
}

int show_tier(const InspectOptions& options, const Assessment& found, Terminal& terminal) {
  if (options.output.json) {
    terminal.out(write_json(nlohmann::ordered_json{{"name", options.name()},
                                                   {"tier", tier_name(found.tier)},
                                                   {"runs", false},
                                                   {"reason", found.reason},
                                                   {"next", found.next}}) +
                 "\n");
  } else {
    std::vector<std::vector<std::string>> rows = {
        {"model", options.name()}, {"tier", std::string(tier_name(found.tier))}, {"reason", found.reason}};
    if (!found.next.empty()) rows.push_back({"next", found.next});
    terminal.wraps();
    terminal.out(table_text(rows));
  }
  return options.require.empty() ? 0 : 1;
}

/// Input norms of the first layers, whose mean is evidence on how norms are stored.
bool is_early_norm(std::string_view name) {
  constexpr std::string_view kEnd = ".input_layernorm.weight", kLayers = "layers.";
  if (!name.ends_with(kEnd)) return false;
  name.remove_suffix(kEnd.size());
  return !name.empty() && name.back() >= '0' && name.back() <= '9' &&
         name.substr(0, name.size() - 1).ends_with(kLayers);
}

/// Those norms, and the parts of an MTP head that the head doctor reads: its norms, and enough of a matrix to
/// see that it is not zero.
std::vector<hub::ByteRange> doctors_ranges(const format::TensorView& tensor) {
  constexpr std::size_t kSample = 4096;
  if (!format::is_mtp_name(tensor.name) && !is_early_norm(tensor.name)) return {};
  const std::size_t bytes = tensor.shape.size() == 1 ? tensor.bytes.size() : kSample;
  return {{0, static_cast<std::int64_t>(std::min(bytes, tensor.bytes.size()))}};
}

Result<int> run_inspect(const InspectOptions& options, Terminal& terminal);

/// The same report for a repository; only its headers and small files are read.
Result<int> work_remotely(const InspectOptions& options, Terminal& terminal) {
  const std::string repository = repository_of(options.model);
  FT_ASSIGN(const RemoteFolder folder,
            read_remote(repository, doctors_ranges, options.output.quiet, terminal));
  terminal.note(fmt::format("{}: {} of {} were read", repository,
                            bytes_text(static_cast<double>(folder.skeleton.fetched_bytes)),
                            bytes_text(static_cast<double>(folder.skeleton.all_bytes))));
  InspectOptions local = options;
  local.remote = false, local.named = repository, local.model = folder.directory();
  return run_inspect(local, terminal);
}

Result<int> run_inspect(const InspectOptions& options, Terminal& terminal) {
  if (options.remote) return work_remotely(options, terminal);
  if (const std::optional<Assessment> found = what_does_not_run(options.model, options.name()))
    return show_tier(options, *found, terminal);
  LoadOptions load_options;
  if (!is_synth_name(options.model) && options.named.empty()) {
    FT_ASSIGN(const std::string directory, find_model(options.model));
    FT_ASSIGN(load_options.drafters, found_drafters(directory));
  }
  FT_ASSIGN(const Model model, load_named(options.model, load_options));
  FT_ASSIGN(const std::int64_t context, choose_context(options.context, model));
  const BackendSettings settings = without_division(options.settings).optional();  // for two backends
  FT_ASSIGN(const std::unique_ptr<Backend> backend,
            make_backend({.name = "cpu", .threads = 1, .settings = settings}));
  Inspection found = inspect(model, read_machine(), context, *backend, options.program);
  if (!options.named.empty()) found.directory = options.named + " on the hub";
  if (!is_synth_name(options.model)) {
    const Assessment assessment = assess(hub::summarise_place(model.directory), options.name(), false);
    found.tier = tier_name(assessment.tier);
    found.tier_reason = assessment.reason;
    found.tier_next = options.named.empty() ? assessment.next : "foretoken pull " + options.named;
  }
  FT_ASSIGN(const std::string folder, packed_weights_folder(options.packed_cache));
  if (!folder.empty()) found.packed_cache = find_packed(folder, model);
  if (!model.mtp_head.usable()) found.head_donors = head_donors(model, options.name());
  if (!model.mtp_head.usable() && !is_synth_name(options.model) && options.named.empty()) {
    const Result<std::vector<DraftFolder>> drafters = found_drafters(model.directory);
    if (drafters.ok() && drafters->empty()) found.tune = "foretoken tune " + model.directory;
  }
  found.gpu = gpu_fit(model, context, settings);
  BackendOptions division;
  division.settings = options.settings, division.target = &model.target;
  FT_ASSIGN(found.devices, division_lines(division));
  if (options.output.json) {
    terminal.out(inspect_json(found) + "\n");
  } else {
    show(found, terminal);
  }
  return options.require == "drafted" && !model.mtp_head.usable() ? 1 : 0;
}

}  // namespace

Command inspect_command() {
  auto options = std::make_shared<InspectOptions>();
  Command command;
  command.name = "inspect";
  command.summary = "Show the sizes, quantisation, MTP head and memory of a model, and whether it fits";
  command.examples =
      "  foretoken inspect\n"
      "  foretoken inspect ~/models/Qwen3.5-4B-4bit --context 32768\n"
      "  foretoken inspect synth:qwen3.5-27b?bits=4       the needs of a model of that shape\n"
      "  foretoken inspect synth:qwen3.5-27b?bits=4 --devices cuda:0,cpu  the layers that each device gets\n"
      "  foretoken inspect --remote mlx-community/Qwen3.5-9B-4bit     before a download\n"
      "  foretoken inspect --program --json\n";
  command.flags.group("Model");
  command.flags.positional = "model";
  add_model_folder_flag(command.flags, options->model);
  command.flags
      .add("context", "N", reads_int(options->context, 0, std::int64_t{1} << 24),
           "Tokens for the memory figure; 0 (default): 4096, or the model's context if it is shorter")
      .letter = "c";
  add_backend_settings(command.flags, options->settings);
  command.flags.add("require", "WHAT", reads_choice(options->require, {"runs", "drafted"}),
                    "Exit with 1 unless the model runs, or has a working MTP head");
  command.flags
      .add_switch("remote", options->remote,
                  "MODEL is a repository at the hub; read only its small files and headers, no weights")
      .setting = false;
  command.flags.add_switch("program", options->program, "Also print the instructions that backends run");
  command.flags
      .add(
          "packed-weights", "DIR", reads_text(options->packed_cache),
          "Also show the packed-weight cache files of the model: off (default), auto (the cache folder) or a "
          "folder")
      .old_name = "prepared";
  return bind_options(std::move(command), std::move(options), run_inspect);
}

}  // namespace ft::cli
