// `foretoken models`: the models on this machine, from any program; `models path`, `models check`.
// models_rm.cpp deletes.
#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/text_layout.h"
#include "cli/args/option_flags.h"
#include "cli/commands/models_rm.h"
#include "cli/commands/subcommands.h"
#include "cli/library/library.h"
#include "cli/library/shipped_model.h"
#include "cli/library/whole_files.h"

namespace ft::cli {
namespace {

using Json = nlohmann::ordered_json;

struct ModelsOptions {
  OutputOptions output;
  std::vector<std::string> folders;
  std::string name;
};

std::string days_ago(std::int64_t at_s) {
  if (at_s == 0) return "-";
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  constexpr std::int64_t kDay = 86'400;
  const std::int64_t days = (std::chrono::duration_cast<std::chrono::seconds>(now).count() - at_s) / kDay;
  return days <= 0 ? "today" : days == 1 ? "yesterday" : fmt::format("{} days ago", days);
}

Json to_json(const KnownModel& model) {
  const Assessment& found = model.assessment;
  return {{"name", model.found.name},
          {"directory", model.summary.directory},
          {"place", model.found.place},
          {"family", found.family},
          {"model_type", model.summary.model_type},
          {"bytes", model.summary.bytes},
          {"quantisation", model.summary.quantisation},
          {"bits", model.summary.bits > 0 ? Json(model.summary.bits) : Json()},
          {"head_file", model.summary.head_file},
          {"drafted_by", found.drafted_by()},
          {"tier", tier_name(found.tier)},
          {"runs", found.runs()},
          {"reason", found.reason},
          {"next", found.next},
          {"used_s", model.summary.used_s},
          {"delete", how_to_delete(model)}};
}

void show(const Library& library, Terminal& terminal) {
  if (library.models.empty()) {
    terminal.wraps();
    terminal.out("no models on this machine; fetch one: foretoken pull ORG/NAME, or run foretoken start\n");
    return;
  }
  std::vector<std::vector<std::string>> rows = {
      {"model", "family", "size", "weights", "drafted by", "tier", "last use", "place"}};
  for (const KnownModel& model : library.models) {
    const Assessment& found = model.assessment;
    const std::string family = !found.family.empty()               ? found.family
                               : !model.summary.model_type.empty() ? model.summary.model_type
                                                                   : "-";
    rows.push_back({model.found.name, family, bytes_text(static_cast<double>(model.summary.bytes)),
                    model.summary.quantisation.empty() ? "-" : model.summary.quantisation,
                    found.runs() ? std::string(found.drafted_by()) : "-", std::string(tier_name(found.tier)),
                    days_ago(model.summary.used_s), model.found.place});
  }
  enum Heading : std::size_t { kFamily = 1, kWeights = 3, kDraftedBy = 4, kLastUse = 6, kPlace = 7 };
  const std::size_t columns =
      terminal.out_is_terminal() ? static_cast<std::size_t>(terminal.columns()) : std::string::npos;
  terminal.out(fitted_table(std::move(rows), {kLastUse, kFamily, kPlace, kWeights, kDraftedBy}, columns));
  terminal.flush();
  terminal.wraps();
  for (const KnownModel& model : library.models) {
    if (model.assessment.runs()) continue;
    terminal.out(fmt::format("\n{}: {}{}", model.found.name, model.assessment.reason,
                             model.assessment.next.empty() ? "" : "; next: " + model.assessment.next));
  }
  const bool only_shipped = std::ranges::all_of(
      library.models, [](const KnownModel& model) { return model.found.place == kShippedPlace; });
  terminal.out(only_shipped
                   ? "\nThis model comes with the program. Fetch another: foretoken start, or foretoken pull "
                     "ORG/NAME\n"
                   : "\nrun one: foretoken chat --model NAME    delete one: foretoken models rm NAME\n");
}

Result<int> list(const ModelsOptions& options, Terminal& terminal) {
  FT_ASSIGN(const Library library, read_library(options.folders));
  if (options.output.json) {
    Json models = Json::array();
    for (const KnownModel& model : library.models) models.push_back(to_json(model));
    terminal.out(write_json(Json{{"models", models}, {"ended_early", library.ended_early}}) + "\n");
  } else {
    show(library, terminal);
  }
  if (!library.ended_early.empty()) terminal.note(library.ended_early);
  return 0;
}

Result<int> path(const ModelsOptions& options, Terminal& terminal) {
  FT_ASSIGN(const KnownModel model, find_known(options.name));
  terminal.out(options.output.json ? write_json(to_json(model)) + "\n" : model.found.directory + "\n");
  return 0;
}

std::string how_to_repair(const KnownModel& model) {
  return model.found.place == hub::kHubPlace ? fmt::format("foretoken pull {} --repair", model.found.name)
                                             : "fetch these files again";
}

/// Hashes the files that the cache names by their hash.
Result<int> check(const ModelsOptions& options, Terminal& terminal) {
  FT_ASSIGN(const KnownModel model, find_known(options.name));
  const WholeFiles found = check_whole_files(model.found.directory, terminal);
  if (options.output.json) {
    terminal.out(
        write_json(Json{{"name", model.found.name}, {"checked", found.checked}, {"damaged", found.damaged}}) +
        "\n");
  } else {
    for (const std::string& file : found.damaged) terminal.out(fmt::format("damaged: {}\n", file));
    terminal.out(found.checked == 0
                     ? "nothing was checked: the hashes of these files are unknown\n"
                     : fmt::format("{} files checked, {} damaged\n", found.checked, found.damaged.size()));
    if (!found.damaged.empty()) terminal.out(fmt::format("next: {}\n", how_to_repair(model)));
  }
  return found.damaged.empty() ? 0 : 1;
}

Command named_command(const char* name, const char* summary, const char* example,
                      const std::shared_ptr<ModelsOptions>& options) {
  Command command;
  command.name = name, command.summary = summary, command.examples = example;
  command.flags.group("Model");
  command.flags.positional = "name";
  command.flags.add("name", "NAME", reads_model(options->name), "A name of `foretoken models`").setting =
      false;
  command.check = [options, word = command.name]() -> Status {
    if (!options->name.empty()) return {};
    return Error{Code::kInvalid, fmt::format("the model is missing; use foretoken {} NAME", word)};
  };
  return command;
}

}  // namespace

Command models_command() {
  auto options = std::make_shared<ModelsOptions>();
  Command command;
  command.name = "models";
  command.summary = "List the models on this machine, with their tier and size";
  command.examples =
      "  foretoken models\n"
      "  foretoken models --folder /mnt/disk/models     search this folder too (or FORETOKEN_MODELS=A:B)\n"
      "  foretoken models rm NAME\n";
  command.flags.group("Search");
  command.flags.add_list("folder", "DIR", appends_text(options->folders),
                         "Search this folder for models too (repeatable)");
  return bind_options(std::move(command), std::move(options), list);
}

Command models_path_command() {
  auto options = std::make_shared<ModelsOptions>();
  Command command = named_command("models path", "Print the folder of a model",
                                  "  foretoken models path Qwen3.5-4B-OptiQ-4bit\n", options);
  return bind_options(std::move(command), std::move(options), path);
}

Command models_check_command() {
  auto options = std::make_shared<ModelsOptions>();
  Command command = named_command("models check", "Check the files of a pulled model against their hashes",
                                  "  foretoken models check mlx-community/Qwen3.5-4B-OptiQ-4bit\n", options);
  return bind_options(std::move(command), std::move(options), check);
}

}  // namespace ft::cli
