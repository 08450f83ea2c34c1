// `foretoken quantize`: writes a model in fewer bits, in the layout of MLX.
#include <atomic>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/text_file.h"
#include "cli/args/option_flags.h"
#include "cli/commands/bit_calibration.h"
#include "cli/commands/conversion_work.h"
#include "cli/commands/subcommands.h"
#include "cli/terminal/interrupt.h"
#include "convert/recipe_names.h"

namespace ft::cli {
namespace {

struct QuantizeOptions {
  OutputOptions output;
  ConversionFlags files;
  std::string format = "affine", mtp = "keep", vision = "keep";
  std::string recipe;
  std::optional<int> bits, group;
  bool verify = false;
  std::string text, calibrate;
  std::optional<float> average_bits;
};

/// num_hidden_layers of either level of config.json.
int layers_of(const convert::Source& source) {
  const nlohmann::json& config = *source.config;
  const auto text = config.find("text_config");
  const nlohmann::json& section = text != config.end() && text->is_object() ? *text : config;
  const auto layers = section.find("num_hidden_layers");
  return layers != section.end() && layers->is_number_unsigned() ? layers->get<int>() : 0;
}

Result<convert::Recipe> choose_recipe(const QuantizeOptions& options, const convert::Source& source) {
  if (options.recipe.empty()) return convert::uniform_recipe(options.format, options.bits, options.group);
  if (!options.recipe.ends_with(".toml")) return convert::named_recipe(options.recipe, layers_of(source));
  FT_ASSIGN(const std::string text, read_text_file(options.recipe, std::size_t{1} << 20));
  return convert::parse_recipe(text, options.recipe);
}

Result<convert::Recipe> read_recipe(const QuantizeOptions& options, const convert::Source& source) {
  FT_ASSIGN(convert::Recipe recipe, choose_recipe(options, source));
  using Precision = convert::MtpHeadPrecision;
  recipe.mtp = options.mtp == "keep"   ? Precision::kKeep
               : options.mtp == "8"    ? Precision::kEight
               : options.mtp == "same" ? Precision::kSame
                                       : Precision::kDrop;
  recipe.vision =
      options.vision == "keep" ? convert::VisionTreatment::kKeep : convert::VisionTreatment::kDrop;
  return recipe;
}

/// Measures which matrices need more bits.
Result<CalibratedRecipe> calibrate(const QuantizeOptions& options, const convert::Source& source,
                                   const convert::Recipe& base, Terminal& terminal) {
  BitCalibration calibration;
  FT_ASSIGN(calibration.text, read_text_file(options.calibrate, kMaxPromptBytes));
  calibration.average_bits = static_cast<double>(options.average_bits.value_or(0));
  calibration.threads = options.files.threads;
  std::atomic<bool> stopped{false};
  const Interrupt interrupt([&stopped] { stopped = true; });
  std::unique_ptr<Progress> bar;
  return calibrate_bits(source, base, calibration, [&](std::int64_t done, std::int64_t all) {
    if (!bar) bar = std::make_unique<Progress>(terminal, "measuring", all);
    bar->set(done, fmt::format("{} of {} matrices", done, all));
    return !stopped.load();
  });
}

Result<int> run_quantize(const QuantizeOptions& options, Terminal& terminal) {
  FT_ASSIGN(const std::string from, find_source(options.files.from));
  FT_ASSIGN(const convert::Source source, convert::open_source(from));
  FT_ASSIGN(convert::Recipe recipe, read_recipe(options, source));
  CalibratedRecipe calibrated;
  if (!options.calibrate.empty()) {
    FT_ASSIGN(calibrated, calibrate(options, source, recipe, terminal));
    recipe = calibrated.recipe;
  }
  Result<ConversionReport> report = run_conversion(source, recipe, options.files, terminal);
  if (!report.ok()) return report.error();
  if (!calibrated.note.empty()) report->notes.push_back(calibrated.note);
  if (!calibrated.toml.empty() && report->written)
    FT_TRY(write_text_file(options.files.out + "/recipe.toml", calibrated.toml));
  if (options.verify && report->written)
    FT_TRY(verify_conversion(source, recipe, options.files, options.text, *report));
  show_conversion(*report, options.output.json, terminal);
  return 0;
}

}  // namespace

Command quantize_command() {
  auto options = std::make_shared<QuantizeOptions>();
  Command command;
  command.name = "quantize";
  command.summary = "Write a model in fewer bits, in the layout of MLX";
  command.examples =
      "  foretoken quantize ~/models/Qwen3.5-4B ~/models/Qwen3.5-4B-4bit\n"
      "  foretoken quantize SRC OUT --format mxfp4 --mtp 8\n"
      "  foretoken quantize SRC OUT --recipe mixed-4-6+gdn --verify\n"
      "  foretoken quantize SRC OUT --calibrate notes.txt --average-bits 4.5\n"
      "  foretoken quantize SRC OUT --bits 6 --group-size 32 --plan      show sizes without writing\n";
  FlagSet& flags = command.flags;
  add_folder_flags(flags, options->files, "DIR", "Folder of the bf16, f16 or f32 original");
  flags.group("Format");
  flags.add("format", "NAME", reads_choice(options->format, {"affine", "mxfp4", "mxfp8", "nvfp4"}),
            "Weight format: affine (default), mxfp4, mxfp8 or nvfp4");
  flags.add("bits", "N", reads_int(options->bits, 2, 8),
            "Bits of affine codes: 2, 3, 4 (default), 5, 6 or 8");
  flags.add("group-size", "N", reads_int(options->group, 16, 128),
            "Weights that share a scale, affine only: 32, 64 (default) or 128");
  flags.add("recipe", "NAME|FILE", reads_text(options->recipe),
            "Instead of a format: mixed-2-6, mixed-3-4, mixed-3-6, mixed-4-6 (+gdn), q4 and others, or a "
            ".toml file");
  flags.add("mtp", "CHOICE", reads_choice(options->mtp, {"keep", "8", "same", "drop"}),
            "MTP head: keep as stored (default), 8 bits, same as the target, or drop");
  flags.add("vision", "CHOICE", reads_choice(options->vision, {"keep", "drop"}),
            "Vision tower: keep as stored (default) or drop");
  flags.group("Measure");
  flags.add("calibrate", "FILE", reads_text(options->calibrate),
            "Choose the bits of each matrix by measuring on this text, at the size of the chosen "
            "format or of --average-bits");
  flags.add("average-bits", "X", reads_number(options->average_bits, {2, 9}),
            "With --calibrate: average bits per weight including scales (default: as in the chosen format)");
  flags.add_switch("verify", options->verify,
                   "Read the result back and print the cosine of each matrix, and perplexity and acceptance "
                   "before and after");
  flags.add("text", "FILE", reads_text(options->text),
            "With --verify: the text to measure on (default: a built-in one)");
  add_work_flags(flags, options->files);
  command.check = [options]() -> Status {
    if (!options->recipe.empty() && (options->bits || options->group || options->format != "affine")) {
      return Error{Code::kInvalid,
                   "--recipe replaces --format, --bits and --group-size; give one or the other"};
    }
    if (options->average_bits && options->calibrate.empty())
      return Error{Code::kInvalid, "--average-bits needs --calibrate FILE"};
    if (!options->text.empty() && !options->verify) return Error{Code::kInvalid, "--text needs --verify"};
    return check_folders(options->files, "quantize");
  };
  return bind_options(std::move(command), std::move(options), run_quantize);
}

}  // namespace ft::cli
