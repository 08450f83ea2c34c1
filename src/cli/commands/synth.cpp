// `foretoken synth`: writes random weights in the shape of a published model, to measure its speed.
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text_file.h"
#include "base/text_layout.h"
#include "cli/args/option_flags.h"
#include "cli/commands/model_path.h"
#include "cli/commands/subcommands.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/report_json.h"
#include "models/synthetic/checkpoint.h"

namespace ft::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTextFiles[] = {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja",
                                      "generation_config.json"};

struct SynthCommandOptions {
  OutputOptions output;
  std::string shape = "qwen3.5-0.8b", bits = "4", group = "64", out;
  std::uint64_t seed = 0;
  int layers = 0;  // 0: as many as the shape has
  bool no_mtp = false, mtp = false, force = false;
};

/// Copies the shipped tokenizer and template; its ids exist in each of these vocabularies.
Status copy_text_files(const std::string& directory) {
  FT_ASSIGN(const std::string shipped, find_model(""));
  for (const char* name : kTextFiles) {
    FT_ASSIGN(const std::string text, read_text_file(shipped + "/" + name, kMaxPromptBytes));
    FT_TRY(write_text_file(directory + "/" + name, text));
  }
  return {};
}

Result<int> run_synth(const SynthCommandOptions& options, Terminal& terminal) {
  SynthOptions synth;
  FT_ASSIGN(synth.shape, find_shape(options.shape));
  if (options.layers > 0) synth.shape.layers = options.layers;
  set_width(options.bits, synth);
  synth.group = std::stoi(options.group);
  if (options.mtp && !has_head(synth.shape))
    return Error{Code::kInvalid, fmt::format("--mtp: {} has no MTP head; omit the flag", options.shape)};
  synth.seed = options.seed, synth.directory = options.out;
  synth.mtp = !options.no_mtp && has_head(synth.shape);
  std::error_code ignored;
  if (!options.force && fs::exists(fs::path(options.out) / "config.json", ignored)) {
    return Error{Code::kInvalid,
                 fmt::format("{} already contains a model; choose another --out, or overwrite it with "
                             "--force",
                             options.out)};
  }
  const auto start = std::chrono::steady_clock::now();
  std::atomic<bool> stopped{false};
  Result<SynthResult> result = [&] {
    const Interrupt interrupt([&stopped] { stopped = true; });
    std::unique_ptr<Progress> bar;
    return write_checkpoint(synth, [&](std::int64_t done, std::int64_t all) {
      if (!bar) bar = std::make_unique<Progress>(terminal, "writing", all);
      bar->set(done, fmt::format("{} of {}", bytes_text(static_cast<double>(done)),
                                 bytes_text(static_cast<double>(all))));
      return !stopped.load();
    });
  }();
  if (!result.ok()) return result.error();
  FT_TRY(copy_text_files(options.out));
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (options.output.json) {
    terminal.out(synth_json(options.out, result->parameters, result->bytes, seconds) + "\n");
  } else {
    terminal.out(fmt::format("{}: {:.4g} million random parameters, {} in {:.1f} s\n", options.out,
                             static_cast<double>(result->parameters) / 1e6,
                             bytes_text(static_cast<double>(result->bytes)), seconds));
  }
  return 0;
}

}  // namespace

Command synth_command() {
  auto options = std::make_shared<SynthCommandOptions>();
  Command command;
  command.name = "synth";
  command.summary = "Write a checkpoint of random weights in the shape of a published model";
  command.examples =
      "  foretoken synth --shape qwen3.5-4b --bits 4 --out /tmp/qwen3.5-4b\n"
      "  foretoken bench --model /tmp/qwen3.5-4b --forced-acceptance 0.9,0.8,0.7 --temperature 0 --pairs 1\n"
      "  foretoken synth --shape tiny --bits 16 --seed 7 --no-mtp --out /tmp/tiny\n";
  command.flags.group("Checkpoint");
  command.flags.add("shape", "NAME", reads_choice(options->shape, shape_names()),
                    fmt::format("Model shape (default qwen3.5-0.8b): {}", fmt::join(shape_names(), ", ")));
  command.flags.add("bits", "N",
                    reads_choice(options->bits, {std::begin(kSynthWidths), std::end(kSynthWidths)}),
                    "Weight format: 4 (default), 8, 16 (bf16), mxfp4, mxfp8 or nvfp4");
  command.flags.add("group", "N", reads_choice(options->group, {"32", "64", "128"}),
                    "Group size of 4-bit and 8-bit weights: 32, 64 (default) or 128");
  command.flags.add("layers", "N", reads_int(options->layers, 0, 512),
                    "Layers; 0 (default): as many as the shape has");
  command.flags.add("seed", "N", reads_seed(options->seed),
                    "Random seed (default 0); the same seed writes the same bytes");
  command.flags.add("out", "DIR", reads_text(options->out), "Folder to write (required)").letter = "o";
  command.flags.add_switch("mtp", options->mtp, "Write an MTP head (default)");
  command.flags.add_switch("no-mtp", options->no_mtp, "Write no MTP head");
  command.flags.add_switch("force", options->force, "Overwrite an existing model");
  command.check = [options]() -> Status {
    if (options->out.empty()) return Error{Code::kInvalid, "--out DIR is missing: the folder to write"};
    if (options->mtp && options->no_mtp)
      return Error{Code::kInvalid, "--mtp and --no-mtp exclude each other"};
    return {};
  };
  return bind_options(std::move(command), std::move(options), run_synth);
}

}  // namespace ft::cli
