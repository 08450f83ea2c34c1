// `foretoken pull`: fetches a model into the cache that huggingface_hub and mlx-lm use too.
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json.h"
#include "base/text_layout.h"
#include "cli/args/option_flags.h"
#include "cli/commands/hub_access.h"
#include "cli/commands/subcommands.h"
#include "cli/library/catalogue.h"
#include "cli/library/library.h"
#include "cli/library/shipped_model.h"
#include "cli/terminal/interrupt.h"
#include "hub/repository.h"

namespace ft::cli {
namespace {

using Json = nlohmann::ordered_json;

struct PullCommandOptions {
  OutputOptions output;
  PullChoice pull;
  std::string file;
};

constexpr int kPullInterrupted = 130;  // as a shell reports SIGINT

void show(const PullChoice& choice, const hub::PullPlan& plan, const Assessment& found, Terminal& terminal) {
  if (choice.dry_run) {
    terminal.out(fmt::format("{} at {}: {} files, {}, {} to fetch\n", plan.repository, plan.commit,
                             plan.files, bytes_text(static_cast<double>(plan.bytes)),
                             bytes_text(static_cast<double>(plan.missing_bytes))));
    if (!plan.gate.empty()) {
      terminal.out(fmt::format("gated: {}{}\n",
                               plan.gate == "manual" ? "its owner approves each request for access"
                                                     : "you must accept its licence first",
                               plan.refusal.empty() ? "; this account has access" : ""));
      if (!plan.refusal.empty()) terminal.out(plan.refusal + "\n");
    }
    return;
  }
  terminal.out(
      fmt::format("{} is here: {}{}\n", choice.name, tier_name(found.tier),
                  found.runs() ? fmt::format(", drafted by {}", found.drafted_by()) : ": " + found.reason));
  terminal.out(fmt::format("in {}\n", with_tilde(plan.snapshot)));
  if (found.runs()) {
    terminal.out(fmt::format("next: foretoken chat --model {}\n", choice.name));
  } else if (!found.next.empty()) {
    terminal.out(fmt::format("next: {}\n", found.next));
  }
}

Json to_json(const PullChoice& choice, const hub::PullPlan& plan, const Assessment& found) {
  Json object = {{"repository", plan.repository}, {"commit", plan.commit},
                 {"directory", plan.snapshot},    {"files", plan.files},
                 {"bytes", plan.bytes},           {"missing_bytes", plan.missing_bytes}};
  if (!plan.damaged.empty()) object["damaged"] = plan.damaged;
  if (choice.dry_run) {
    object["gated"] = plan.gate.empty() ? Json(false) : Json(plan.gate);
    object["refusal"] = plan.refusal.empty() ? Json() : Json(plan.refusal);
    return object;
  }
  object["tier"] = tier_name(found.tier), object["runs"] = found.runs();
  object["drafted_by"] = found.drafted_by(), object["reason"] = found.reason, object["next"] = found.next;
  return object;
}

/// --file NAME.gguf is the quantisation NAME of the repository.
Status add_file(PullCommandOptions& options) {
  constexpr std::string_view kEnding = ".gguf";
  if (options.file.empty()) return {};
  std::string file = std::exchange(options.file, {});
  file.erase(0, file.rfind('/') + 1);
  const Result<hub::Repository> asked = hub::parse_repository(options.pull.name);
  if (!asked.ok()) return asked.error();
  if (!file.ends_with(kEnding) || file.size() == kEnding.size() || !asked->quantisation.empty()) {
    return Error{Code::kInvalid, "--file: give the name of a GGUF file, and no :QUANT in the repository"};
  }
  options.pull.name += ":" + file.substr(0, file.size() - kEnding.size());
  return {};
}

Result<int> run_pull(const PullCommandOptions& options, Terminal& terminal) {
  const Result<PullOutcome> fetched = fetch_model(options.pull, options.output.quiet, terminal);
  if (!fetched.ok()) return fetched.error();
  if (fetched->interrupted) {
    terminal.sentence("foretoken: " + stopped_text(fetched->kept_bytes));
    return kPullInterrupted;
  }
  const hub::PullPlan& plan = fetched->plan;
  Assessment found;
  if (!options.pull.dry_run) {
    hub::FoundModel model;
    FT_ASSIGN(const hub::Repository repository, hub::parse_repository(options.pull.name));
    model.directory = plan.snapshot;
    for (const std::string& file : hub::gguf_models(plan.snapshot)) {
      const bool is_first = model.directory == plan.snapshot;
      if (is_first || file.find(repository.quantisation) != std::string::npos) model.directory = file;
    }
    found = assess(hub::summarise(model), repository.text(), true);
  }
  if (options.pull.events) {
    terminal.err(
        write_json(Json{{"event", "done"}, {"path", plan.snapshot}, {"tier", tier_name(found.tier)}}) + "\n");
  }
  if (options.output.json) {
    terminal.out(write_json(to_json(options.pull, plan, found)) + "\n");
  } else {
    show(options.pull, plan, found, terminal);
  }
  return 0;
}

}  // namespace

Command pull_command() {
  auto options = std::make_shared<PullCommandOptions>();
  Command command;
  command.name = "pull";
  command.summary = "Fetch a model from the hub; resumes an interrupted download";
  command.examples =
      "  foretoken pull mlx-community/Qwen3.5-4B-OptiQ-4bit\n"
      "  foretoken pull ORG/NAME@REVISION               a branch, a tag or a commit\n"
      "  foretoken pull ORG/NAME:Q4_K_M                 one GGUF file of several; also --file NAME.gguf\n"
      "  foretoken pull https://HOST/ORG/NAME           the URL of its page\n"
      "  foretoken pull ORG/NAME --dry-run              show files and access, fetch nothing\n"
      "  foretoken pull ORG/NAME --repair               check all hashes, fetch damaged files again\n"
      "  HF_TOKEN=... foretoken pull ORG/PRIVATE        also HF_ENDPOINT, HF_HOME, HF_HUB_OFFLINE, "
      "https_proxy\n"
      "  foretoken pull ORG/NAME --json --events        JSON lines on stderr, one object on stdout\n";
  PullChoice& pull = options->pull;
  command.flags.group("Model");
  command.flags.positional = "name";
  command.flags
      .add("name", "ORG/NAME", reads_model(pull.name),
           "The repository, with @REVISION or :QUANT for a GGUF file, or a name that `start` offers")
      .setting = false;
  command.flags
      .add("file", "FILE.gguf", reads_text(options->file), "The one GGUF file to fetch, and its other parts")
      .setting = false;
  command.flags.add_list("include", "PATTERN", appends_text(pull.include),
                         "Fetch these files too, such as '*.bin' (repeatable)");
  command.flags.add_list("exclude", "PATTERN", appends_text(pull.exclude), "Leave these out (repeatable)");
  command.flags.add_switch("dry-run", pull.dry_run, "Show the files without fetching them");
  command.flags
      .add_switch("repair", pull.repair, "Check the files against their hashes, and fetch damaged ones again")
      .setting = false;
  command.flags.add_switch("events", pull.events, "Print progress as JSON lines on stderr");
  add_pull_flags(command.flags, pull);
  command.check = [options]() -> Status {
    options->pull.name = repository_of(options->pull.name);
    FT_TRY(add_file(*options));
    if (options->pull.name.empty()) {
      return Error{Code::kInvalid, "the model is missing; use foretoken pull ORG/NAME"};
    }
    if (options->pull.name == kShippedModel) {
      return Error{Code::kInvalid,
                   fmt::format("{} comes with this program, there is nothing to fetch; use it "
                               "with: foretoken chat",
                               kShippedModel)};
    }
    const auto parsed = hub::parse_repository(options->pull.name);
    return parsed.ok() ? Status() : Status(parsed.error());
  };
  return bind_options(std::move(command), std::move(options), run_pull);
}

}  // namespace ft::cli
