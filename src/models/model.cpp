#include "models/model.h"

#include <filesystem>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "format/gguf/files.h"
#include "format/out_of_memory.h"
#include "models/draft_network.h"
#include "models/family.h"
#include "models/gguf/model_file.h"
#include "models/head_layer.h"
#include "models/weight_source.h"

namespace ft {

std::string_view head_state_name(HeadReport::State state) {
  switch (state) {
    case HeadReport::State::kReady:
      return "ready";
    case HeadReport::State::kRepaired:
      return "repaired";
    case HeadReport::State::kNone:
      return "none";
    case HeadReport::State::kMissing:
      return "missing";
    case HeadReport::State::kIncomplete:
      return "incomplete";
    case HeadReport::State::kZeroed:
      return "zeroed";
    case HeadReport::State::kWrongShape:
      return "wrong shape";
    case HeadReport::State::kNoMemory:
      return "no memory";
  }
  return "none";
}

namespace {

/// Parameters of experts that a token is not routed to.
std::int64_t idle_parameters(const Program& program) {
  struct Experts final : Describer {
    void experts(std::span<const Weight> weights, std::int64_t rows, std::int64_t cols, int chosen) override {
      idle += (std::ssize(weights) - chosen) * rows * cols;
    }
    std::int64_t idle = 0;
  } found;
  for (const Instruction& instruction : program.instructions()) describe(instruction, found);
  return found.idle;
}

Result<Model> build_model(const std::string& name, const FamilyMatch& match, format::Checkpoint checkpoint,
                          const LoadOptions& options) {
  Model model;
  if (match.family->head_is_a_layer) name_head_layer(checkpoint, match.config->facts().layers);
  model.name = name;
  model.directory = checkpoint.directory();
  model.facts = match.config->facts();
  model.facts.family = match.family->name;
  model.checkpoint = std::make_unique<format::Checkpoint>(std::move(checkpoint));
  FT_ASSIGN(WeightSource source, WeightSource::open(*match.family, *model.checkpoint, *match.config));
  FT_ASSIGN(const std::vector<OpenedDrafter> drafters, open_drafters(options.drafters, model.facts));
  LoadOptions with_captures = options;
  for (const OpenedDrafter& drafter : drafters) {
    if (drafter.config && !drafter.config->captures.layers.empty())
      with_captures.captures.push_back(drafter.config->captures);
  }
  FT_TRY(match.family->build(model, *match.config, source, with_captures));
  model.facts.quantisation = source.summary();
  model.facts.parameters = source.parameters();
  model.facts.active_parameters = model.facts.parameters - idle_parameters(model.target);
  if (model.mtp) model.facts.active_parameters -= idle_parameters(*model.mtp);
  for (const OpenedDrafter& drafter : drafters) {
    FT_ASSIGN(DraftNetwork network, build_drafter(drafter, model));
    model.drafters.push_back(std::move(network));
  }
  return model;
}

/// Applies the config.json of a grafted MTP head.
Status add_head_config(const std::string& head_directory, format::ConfigFiles& files) {
  FT_ASSIGN(const format::JsonDocument patch,
            format::read_json_object((std::filesystem::path(head_directory) / "config.json").string()));
  files.config->merge_patch(*patch);
  return {};
}

Result<Model> load_gguf(const std::string& path, const LoadOptions& options) {
  if (!options.head_directory.empty()) {
    return Error{
        Code::kUnsupported,
        fmt::format("{}: a grafted MTP head cannot be joined to a GGUF file; convert the file first: "
                    "foretoken convert {} OUT",
                    path, path)};
  }
  FT_ASSIGN(gguf::ModelFile file, gguf::open_model(path, options.gguf_scale_bits == 32));
  FT_ASSIGN(const FamilyMatch match, read_config(file.config));
  return build_model(format::gguf_model_name(path), match, std::move(file.checkpoint), options);
}

Result<Model> load(const std::string& directory, const LoadOptions& options) {
  if (format::is_gguf_file(directory)) return load_gguf(directory, options);
  std::filesystem::path path = std::filesystem::path(directory).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  FT_ASSIGN(format::ConfigFiles files, format::ConfigFiles::read(directory));
  std::string head_file;
  if (!options.head_directory.empty()) {
    FT_TRY(add_head_config(options.head_directory, files));
    head_file = (std::filesystem::path(options.head_directory) / "mtp.safetensors").string();
  }
  FT_ASSIGN(const FamilyMatch match, read_config(files));
  FT_ASSIGN(format::Checkpoint checkpoint, format::Checkpoint::open(directory, head_file));
  FT_ASSIGN(Model model, build_model(path.filename().string(), match, std::move(checkpoint), options));
  model.directory = directory;
  return model;
}

}  // namespace

Result<Model> make_model(const std::string& name, const format::ConfigFiles& files,
                         format::Checkpoint checkpoint, const LoadOptions& options) {
  FT_ASSIGN(const FamilyMatch match, read_config(files));
  return build_model(name, match, std::move(checkpoint), options);
}

Result<Model> load_model(const std::string& directory, const LoadOptions& options) {
  return format::with_memory_guard("load the model", directory, [&] { return load(directory, options); });
}

std::string draft_vocabulary_text(const Model& model) {
  if (!model.mtp) return "";
  std::string text =
      model.draft_vocabulary == model.facts.vocabulary
          ? fmt::format("all {} tokens", model.draft_vocabulary)
          : fmt::format("{} of {} tokens at a time", model.draft_vocabulary, model.facts.vocabulary);
  if (model.draft_bits > 0) text += fmt::format(", in {} bits", model.draft_bits);
  return text;
}

}  // namespace ft
