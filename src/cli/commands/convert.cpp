// `foretoken convert`: writes a model of another format in the layout of MLX and keeps its codes.
#include "cli/args/option_flags.h"
#include "cli/commands/conversion_work.h"
#include "cli/commands/subcommands.h"

namespace ft::cli {
namespace {

struct ConvertOptions {
  OutputOptions output;
  ConversionFlags files;
  std::string mtp = "keep", vision = "keep";
  bool exact = false;
};

Result<int> run_convert(const ConvertOptions& options, Terminal& terminal) {
  convert::Recipe recipe;
  recipe.keeps_codes = true, recipe.name = "the source's codes";
  if (options.mtp == "drop") recipe.mtp = convert::MtpHeadPrecision::kDrop;
  if (options.vision == "drop") recipe.vision = convert::VisionTreatment::kDrop;
  FT_ASSIGN(const std::string from, find_source(options.files.from));
  FT_ASSIGN(const convert::Source source, convert::open_source(from, options.exact));
  Result<ConversionReport> report = run_conversion(source, recipe, options.files, terminal);
  if (!report.ok()) return report.error();
  show_conversion(*report, options.output.json, terminal);
  return 0;
}

}  // namespace

Command convert_command() {
  auto options = std::make_shared<ConvertOptions>();
  Command command;
  command.name = "convert";
  command.summary = "Write a model of another format in the layout of MLX, keeping its codes";
  command.examples =
      "  foretoken convert model-Q4_K_M.gguf ~/models/converted\n"
      "  foretoken convert ~/models/Qwen3.5-9B-GPTQ ~/models/converted --exact\n"
      "  foretoken convert SRC OUT --plan      show which tensors stay exact, without writing\n";
  FlagSet& flags = command.flags;
  add_folder_flags(flags, options->files, "PATH",
                   "A GGUF file, or a folder: FP8, GPTQ, AWQ, compressed-tensors, ModelOpt NVFP4 or plain");
  flags.group("Format");
  flags.add_switch("exact", options->exact,
                   "Keep scales and biases as float32 where 16 bits would round them (default: round)");
  flags.add("mtp", "CHOICE", reads_choice(options->mtp, {"keep", "drop"}),
            "MTP head: keep (default) or drop");
  flags.add("vision", "CHOICE", reads_choice(options->vision, {"keep", "drop"}),
            "Vision tower: keep as stored (default) or drop");
  add_work_flags(flags, options->files);
  command.check = [options] { return check_folders(options->files, "convert"); };
  return bind_options(std::move(command), std::move(options), run_convert);
}

}  // namespace ft::cli
