// `foretoken quantize`: writes a model in fewer bits, in the layout of MLX.
#include "cli/args/option_flags.h"
#include "cli/commands/conversion_work.h"
#include "cli/commands/subcommands.h"

namespace ft::cli {
namespace {

struct Options {
  OutputOptions output;
  ConversionFlags files;
  std::string format = "affine", mtp = "keep", vision = "keep";
  std::optional<int> bits, group;
};

Result<convert::Recipe> read_recipe(const Options& options) {
  FT_ASSIGN(convert::Recipe recipe, convert::uniform_recipe(options.format, options.bits, options.group));
  using Head = convert::HeadTreatment;
  recipe.mtp = options.mtp == "keep"   ? Head::kKeep
               : options.mtp == "8"    ? Head::kEight
               : options.mtp == "same" ? Head::kSame
                                       : Head::kDrop;
  recipe.vision =
      options.vision == "keep" ? convert::VisionTreatment::kKeep : convert::VisionTreatment::kDrop;
  return recipe;
}

Result<int> work(const Options& options, Terminal& terminal) {
  FT_ASSIGN(const convert::Recipe recipe, read_recipe(options));
  FT_ASSIGN(const std::string from, find_source(options.files.from));
  FT_ASSIGN(const convert::Source source, convert::open_source(from));
  Result<ConversionReport> report = run_conversion(source, recipe, options.files, terminal);
  if (!report.ok()) return report.error();
  show_conversion(*report, options.output.json, terminal);
  return 0;
}

}  // namespace

Command quantize_command() {
  auto options = std::make_shared<Options>();
  Command command;
  command.name = "quantize";
  command.summary = "Write a model in fewer bits, in the layout of MLX";
  command.examples =
      "  foretoken quantize ~/models/Qwen3.5-4B ~/models/Qwen3.5-4B-4bit\n"
      "  foretoken quantize SRC OUT --format mxfp4 --mtp 8\n"
      "  foretoken quantize SRC OUT --bits 6 --group-size 32 --plan      sizes only, nothing is written\n";
  FlagSet& flags = command.flags;
  flags.group("Model");
  flags.positional = "from", flags.second_positional = "out";
  flags.add("from", "DIR", reads_text(options->files.from), "Folder of the bf16, f16 or f32 original")
      .setting = false;
  Flag& out = flags.add("out", "DIR", reads_text(options->files.out), "Folder to write");
  out.letter = "o", out.setting = false;
  flags.group("Format");
  flags.add("format", "NAME", reads_choice(options->format, {"affine", "mxfp4", "mxfp8", "nvfp4"}),
            "Weight format: affine (default), mxfp4, mxfp8 or nvfp4");
  flags.add("bits", "N", reads_int(options->bits, 2, 8),
            "Bits of affine codes: 2, 3, 4 (default), 5, 6 or 8");
  flags.add("group-size", "N", reads_int(options->group, 16, 128),
            "Weights that share a scale, affine only: 32, 64 (default) or 128");
  flags.add("mtp", "CHOICE", reads_choice(options->mtp, {"keep", "8", "same", "drop"}),
            "MTP head: keep as stored (default), 8 bits, same as the target, or drop");
  flags.add("vision", "CHOICE", reads_choice(options->vision, {"keep", "drop"}),
            "Vision tower: keep as stored (default) or drop");
  add_work_flags(flags, options->files);
  command.check = [options] { return check_folders(options->files, "quantize"); };
  return bind_options(std::move(command), std::move(options), work);
}

}  // namespace ft::cli
