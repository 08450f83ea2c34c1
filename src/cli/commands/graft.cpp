// `foretoken graft`: stores the MTP head of another checkpoint, or a separate drafter, for a model that lacks
// one. It is checked first, and the files of the model do not change.
#include <filesystem>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "cli/args/option_flags.h"
#include "cli/commands/grafting.h"
#include "cli/commands/loading.h"
#include "cli/commands/model_path.h"
#include "cli/commands/subcommands.h"
#include "cli/library/heads.h"

namespace ft::cli {
namespace {

namespace fs = std::filesystem;

struct GraftCommandOptions {
  OutputOptions output;
  GraftOptions graft;
  bool remove = false;
};

void show(const GraftReport& report, bool json, Terminal& terminal) {
  if (json) {
    terminal.out(write_json(nlohmann::ordered_json{{"model", report.model},
                                                   {"from", report.from},
                                                   {"drafter", report.drafter},
                                                   {"kept_in", report.kept_in},
                                                   {"bytes", report.bytes},
                                                   {"acceptance", report.acceptance},
                                                   {"notes", report.notes}}) +
                 "\n");
    return;
  }
  terminal.wraps();
  for (const std::string& note : report.notes) terminal.out(note + "\n");
  terminal.out(fmt::format("{} now drafts for {}; stored in {}\n",
                           report.drafter == "mtp" ? "the MTP head" : report.drafter, report.model,
                           report.kept_in));
}

Result<int> remove(const GraftCommandOptions& options, Terminal& terminal) {
  FT_ASSIGN(const std::string onto, find_model(options.graft.onto));
  const std::string folder = head_folder_of(onto);
  std::error_code failed;
  const bool was = !folder.empty() && fs::remove_all(folder, failed) > 0;
  if (failed) return Error{Code::kIo, fmt::format("{} cannot be deleted: {}", folder, failed.message())};
  terminal.out(options.output.json ? write_json(nlohmann::json{{"removed", was}}) + "\n"
               : was               ? fmt::format("removed the graft of {}\n", options.graft.onto)
                                   : fmt::format("nothing is grafted onto {}\n", options.graft.onto));
  return was ? 0 : 1;
}

Result<int> run_graft(const GraftCommandOptions& options, Terminal& terminal) {
  if (options.remove) return remove(options, terminal);
  FT_ASSIGN(const GraftReport report, graft(options.graft, terminal));
  show(report, options.output.json, terminal);
  return 0;
}

}  // namespace

Command graft_command() {
  auto options = std::make_shared<GraftCommandOptions>();
  Command command;
  command.name = "graft";
  command.summary = "Give a model the MTP head of another checkpoint, or a separate drafter";
  command.examples =
      "  foretoken graft --head ~/models/Qwen3.5-9B --onto ~/models/Qwen3.5-9B-4bit\n"
      "  foretoken graft --head Qwen/Qwen3.5-9B --onto Qwen3.5-9B-4bit        fetches only the head\n"
      "  foretoken graft --head ~/models/my-eagle3 --onto Qwen3.5-9B-4bit\n"
      "  foretoken graft --onto Qwen3.5-9B-4bit --remove\n";
  FlagSet& flags = command.flags;
  flags.group("Model");
  flags
      .add("head", "NAME", reads_model(options->graft.head),
           "Source of the head: a checkpoint with an MTP head (the original), ORG/REPO at the hub (only the "
           "head is fetched), or a folder of EAGLE-3, DFlash, DFlash2, DSpark or an assistant of Gemma 4")
      .setting = false;
  flags
      .add("onto", "NAME", reads_text(options->graft.onto),
           "Target model: a folder, ORG/REPO or a name of `foretoken models`; its files do not change")
      .setting = false;
  flags.group("Work");
  flags
      .add("out", "FILE", reads_text(options->graft.out),
           "Write the MTP head to this file, such as MODEL/mtp.safetensors (default: foretoken's data "
           "folder, which every start searches)")
      .setting = false;
  flags.add("text", "FILE", reads_text(options->graft.text),
            "Measure acceptance on this text (default: a built-in one)");
  flags
      .add_switch("force", options->graft.force,
                  "Store it even if its drafts are rejected or the model has a head")
      .setting = false;
  flags.add_switch("remove", options->remove, "Remove the graft of the model").setting = false;
  flags
      .add("threads", "N", reads_int(options->graft.threads, 0, 1024),
           "Worker threads; 0 (default): one per core")
      .letter = "t";
  command.check = [options]() -> Status {
    if (options->graft.onto.empty())
      return Error{Code::kInvalid, "--onto is missing; use foretoken graft --head FROM --onto MODEL"};
    if (options->graft.head.empty() != options->remove)
      return Error{Code::kInvalid, "give either --head FROM or --remove"};
    return {};
  };
  return bind_options(std::move(command), std::move(options), run_graft);
}

}  // namespace ft::cli
