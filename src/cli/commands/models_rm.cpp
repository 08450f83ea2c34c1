// `foretoken models rm` and `models prune`: both list the files to delete, with their bytes, before they ask.
#include "cli/commands/models_rm.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/text_layout.h"
#include "cli/args/option_flags.h"
#include "cli/commands/subcommands.h"
#include "cli/library/shipped_model.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/menu.h"
#include "hub/prune.h"
#include "hub/removal.h"

namespace ft::cli {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

struct ModelsRmOptions {
  OutputOptions output;
  std::string name;
  bool yes = false, dry_run = false;
};

std::string shown(std::int64_t bytes) { return bytes_text(static_cast<double>(bytes)); }

std::string files_text(std::int64_t files) { return fmt::format("{} file{}", files, files == 1 ? "" : "s"); }

/// Exit status 0: it may be deleted; 1: the user refused; 130: they stopped the command.
Result<int> may_delete(const ModelsRmOptions& options, const std::string& command, const std::string& what,
                       Terminal& terminal) {
  if (options.yes) return 0;
  if (!Menu::can_ask(terminal))
    return Error{Code::kInvalid, command + " asks first; without a terminal, add --yes"};
  const std::optional<bool> agreed = Menu(terminal).confirm(fmt::format("delete {}?", what), false);
  constexpr int kStopped = 130;
  if (!agreed || !*agreed) terminal.note(agreed ? "nothing was deleted" : stopped_text());
  return !agreed ? kStopped : *agreed ? 0 : 1;
}

// ---- rm ---------------------------------------------------------------------------------------------------

/// A model outside the hub's cache: deletes the whole folder or file.
Result<hub::Removal> plan_folder(const std::string& root) {
  hub::Removal plan;
  plan.snapshot = root, plan.paths = {root};
  std::error_code failed;
  if (!fs::is_directory(root, failed)) {
    plan.files = 1, plan.bytes = static_cast<std::int64_t>(fs::file_size(root, failed));
  }
  for (fs::recursive_directory_iterator entry(root, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    std::error_code ignored;
    if (!entry->is_regular_file(ignored) || entry->is_symlink(ignored)) continue;
    ++plan.files, plan.bytes += static_cast<std::int64_t>(entry->file_size(ignored));
  }
  return plan;
}

std::vector<std::string> shortened_commits(const std::vector<std::string>& commits) {
  constexpr std::size_t kShown = 12;
  std::vector<std::string> names;
  for (const std::string& commit : commits) names.push_back(commit.substr(0, kShown));
  return names;
}

void show(const KnownModel& model, const hub::Removal& plan, Terminal& terminal) {
  terminal.out(fmt::format("{} in {}\n", model.found.name, with_tilde(plan.snapshot)));
  terminal.out(fmt::format("  goes   {}, {}{}\n", files_text(plan.files), shown(plan.bytes),
                           plan.refs.empty() ? "" : fmt::format(", named {}", fmt::join(plan.refs, ", "))));
  if (plan.stored_bytes > 0) {
    terminal.out(fmt::format("  stays  {} that other repositories use too\n", shown(plan.stored_bytes)));
  }
  if (plan.others.empty()) return;
  terminal.out(
      fmt::format("  stays  {} more: {}",
                  plan.others.size() == 1 ? "1 revision" : fmt::format("{} revisions", plan.others.size()),
                  fmt::join(shortened_commits(plan.others), ", ")));
  terminal.out(plan.kept_files == 0 ? "\n"
                                    : fmt::format("; {} of this one, {}, that they use too\n",
                                                  files_text(plan.kept_files), shown(plan.kept_bytes)));
}

Result<int> remove_model(const ModelsRmOptions& options, Terminal& terminal) {
  FT_ASSIGN(const KnownModel model, find_known(options.name));
  if (model.found.place == kShippedPlace) {
    return Error{Code::kInvalid, fmt::format("{} is part of the program; uninstalling the program removes it",
                                             model.found.name)};
  }
  if (model.found.root.empty()) {
    return Error{Code::kInvalid, fmt::format("{} belongs to {}; delete it with: {}", model.found.name,
                                             model.found.place, how_to_delete(model))};
  }
  FT_ASSIGN(const hub::Removal plan, model.found.place == hub::kHubPlace
                                         ? hub::plan_removal(model.found.root, model.found.directory)
                                         : plan_folder(model.found.root));
  if (!options.output.json) {
    show(model, plan, terminal);
    terminal.flush();
  }
  FT_ASSIGN(const int refused, may_delete(options, "models rm", shown(plan.bytes), terminal));
  if (refused != 0) return refused;
  FT_TRY(hub::remove(plan));
  terminal.out(options.output.json ? write_json(Json{{"deleted", plan.snapshot},
                                                     {"refs", plan.refs},
                                                     {"files", plan.files},
                                                     {"bytes", plan.bytes},
                                                     {"kept_revisions", plan.others},
                                                     {"kept_bytes", plan.kept_bytes},
                                                     {"shared_bytes", plan.stored_bytes}}) +
                                         "\n"
                                   : fmt::format("deleted {}\n", shown(plan.bytes)));
  return 0;
}

// ---- prune ------------------------------------------------------------------------------------------------

Json to_json(const std::vector<hub::Prunable>& found, std::int64_t bytes, bool deleted) {
  Json entries = Json::array(), left = Json::array();
  for (const hub::Prunable& entry : found) {
    if (entry.young > 0 || entry.busy > 0) {
      left.push_back({{"repository", entry.repository},
                      {"young", entry.young},
                      {"busy", entry.busy},
                      {"bytes", entry.left_bytes}});
    }
    if (!entry.deletes()) continue;
    entries.push_back({{"repository", entry.repository},
                       {"snapshots", entry.snapshots},
                       {"files", entry.stored.empty() ? entry.files : entry.stored},
                       {"bytes", entry.bytes}});
  }
  return {{"prunable", entries}, {"bytes", bytes}, {"deleted", deleted}, {"left", left}};
}

void show(const std::vector<hub::Prunable>& found, Terminal& terminal) {
  std::vector<std::vector<std::string>> rows = {{"repository", "old snapshots", "files", "size"}};
  for (const hub::Prunable& entry : found) {
    if (!entry.deletes()) continue;
    rows.push_back({entry.repository, std::to_string(entry.snapshots.size()),
                    std::to_string(entry.files.size() + entry.stored.size()), shown(entry.bytes)});
  }
  terminal.out(rows.size() == 1 ? "nothing to prune\n" : table_text(rows));
  for (const hub::Prunable& entry : found) {
    if (entry.young > 0) {
      terminal.out(
          fmt::format("left: {} of {} that changed within the last hour, which a download may need; "
                      "repeat later\n",
                      entry.young, entry.repository));
    }
    if (entry.busy > 0) {
      terminal.out(
          fmt::format("left: {} of {} that another process fetches\n", entry.busy, entry.repository));
    }
  }
}

/// Deletes unused files of the hub's cache.
Result<int> prune(const ModelsRmOptions& options, Terminal& terminal) {
  FT_ASSIGN(const hub::HubSettings settings,
            hub::read_hub_settings([](const std::string& name) { return std::getenv(name.c_str()); }));
  constexpr std::int64_t kSettledS = 3600;  // newer files may belong to a running download
  const std::int64_t settled_s =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
          .count() -
      kSettledS;
  const std::vector<hub::Prunable> found = hub::find_prunable(settings.cache, settled_s);
  std::int64_t bytes = 0;
  for (const hub::Prunable& entry : found) bytes += entry.bytes;
  if (!options.output.json) show(found, terminal);
  terminal.flush();
  const bool any = std::ranges::any_of(found, [](const hub::Prunable& entry) { return entry.deletes(); });
  int refused = 0;
  if (any && !options.dry_run) {
    const std::string what = fmt::format("{} in {}", shown(bytes), with_tilde(settings.cache));
    FT_ASSIGN(refused, may_delete(options, "models prune", what, terminal));
    for (const hub::Prunable& entry : found) {
      if (refused == 0) FT_TRY(hub::prune(entry));
    }
    if (!options.output.json && refused == 0) terminal.out("deleted\n");
  }
  if (options.output.json) {
    terminal.out(write_json(to_json(found, bytes, any && !options.dry_run && refused == 0)) + "\n");
  }
  return refused;
}

}  // namespace

std::string how_to_delete(const KnownModel& model) {
  const std::string& place = model.found.place;
  if (place == kShippedPlace) return "";  // it goes with the program
  if (place == "Ollama") return "ollama rm " + model.found.name.substr(std::string("ollama:").size());
  return "foretoken models rm " + model.found.name;
}

Command models_rm_command() {
  auto options = std::make_shared<ModelsRmOptions>();
  Command command;
  command.name = "models rm";
  command.summary = "Delete a model from this machine";
  command.examples =
      "  foretoken models rm mlx-community/Qwen3.5-4B-OptiQ-4bit\n"
      "  foretoken models rm ORG/NAME@REVISION          this revision; shared files stay\n";
  command.flags.group("Model");
  command.flags.positional = "name";
  command.flags.add("name", "NAME", reads_model(options->name), "A name of `foretoken models`").setting =
      false;
  command.flags.add_switch("yes", options->yes, "Do not ask").setting = false;
  command.check = [options]() -> Status {
    if (!options->name.empty()) return {};
    return Error{Code::kInvalid, "the model is missing; use foretoken models rm NAME"};
  };
  return bind_options(std::move(command), std::move(options), remove_model);
}

Command models_prune_command() {
  auto options = std::make_shared<ModelsRmOptions>();
  Command command;
  command.name = "models prune";
  command.summary =
      "Delete old snapshots, blobs without a snapshot and unfinished downloads from the hub's cache";
  command.examples = "  foretoken models prune --dry-run\n";
  command.flags.group("Cache");
  command.flags.add_switch("dry-run", options->dry_run, "Only list what would be deleted").setting = false;
  command.flags.add_switch("yes", options->yes, "Do not ask").setting = false;
  return bind_options(std::move(command), std::move(options), prune);
}

}  // namespace ft::cli
