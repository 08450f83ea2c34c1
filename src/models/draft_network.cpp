#include "models/draft_network.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>

#include "models/assistant/format.h"
#include "models/dflash/format.h"
#include "models/eagle3/format.h"
#include "models/synthetic/model.h"
#include "models/weight_source.h"

namespace ft {
namespace {

Error of_drafter(const DraftFolder& folder, const Error& error) {
  const Code code = error.code == Code::kInvalid ? Code::kCorrupt : error.code;
  return Error{code, fmt::format("drafter {}: {}", folder.name, error.message)};
}

constexpr DraftFormat kWholeModel = {"model", nullptr, nullptr, nullptr};

Result<OpenedDrafter> open(const DraftFolder& folder, const DraftFormat& format, const ModelFacts& target) {
  FT_ASSIGN(const format::ConfigFiles files,
            is_synth_name(folder.directory) ? synth_draft_config(folder.directory, format.synthetic, target)
                                            : format::ConfigFiles::read(folder.directory));
  OpenedDrafter drafter;
  drafter.folder = folder;
  drafter.format = &format;
  if (format.tensors == nullptr) return drafter;
  FT_ASSIGN(drafter.config, format.read_config(files, target));
  drafter.config->path = files.path;
  drafter.config->captures.name = folder.name;
  if (drafter.config->captures.layers.empty()) return drafter;
  if (const Status layers = check_layers(drafter.config->captures, target.layers); !layers.ok())
    return Error{Code::kInvalid, fmt::format("{}: {}", files.path, layers.error().message)};
  return drafter;
}

/// A whole smaller model. The caller must check that both tokenizers match.
Result<DraftNetwork> load_whole(const DraftFolder& folder, const Model& target) {
  FT_ASSIGN(Model model, load_model(folder.directory));
  if (model.facts.vocabulary > target.facts.vocabulary) {
    return Error{
        Code::kInvalid,
        fmt::format("{} has {} tokens and the target has {}; use a model with the target's tokenizer",
                    folder.directory, model.facts.vocabulary, target.facts.vocabulary)};
  }
  DraftNetwork network;
  network.name = folder.name;
  network.directory = folder.directory;
  network.checkpoint = std::move(model.checkpoint);
  network.programs.push_back(std::move(model.target));
  network.vocabulary = model.facts.vocabulary, network.context = model.facts.context;
  network.parameters = model.facts.parameters, network.quantisation = model.facts.quantisation;
  return network;
}

Result<DraftNetwork> build(const OpenedDrafter& drafter, const Model& target) {
  if (drafter.format->tensors == nullptr) return load_whole(drafter.folder, target);
  DraftNetwork network;
  network.name = drafter.folder.name;
  network.directory = drafter.folder.directory;
  network.captures = drafter.config->captures;
  FT_ASSIGN(format::Checkpoint checkpoint,
            is_synth_name(network.directory)
                ? make_synth_draft(network.directory, *drafter.format->synthetic, target.facts)
                : format::Checkpoint::open(network.directory));
  network.checkpoint = std::make_unique<format::Checkpoint>(std::move(checkpoint));
  network.captured_width = static_cast<int>(network.captures.layers.size()) * target.facts.width;
  FT_ASSIGN(WeightSource source,
            WeightSource::open(*drafter.format->tensors, *network.checkpoint, *drafter.config));
  FT_TRY(drafter.format->build(network, *drafter.config, source, target));
  FT_TRY(source.status());
  network.parameters = source.parameters();
  network.quantisation = source.summary();
  return network;
}

}  // namespace

std::span<const DraftFormat* const> draft_formats() {
  static constexpr std::array<const DraftFormat*, 4> kFormats = {&eagle3::kFormat, &dflash::kFormat,
                                                                 &assistant::kFormat, &kWholeModel};
  return kFormats;
}

Result<std::vector<OpenedDrafter>> open_drafters(std::span<const DraftFolder> folders,
                                                 const ModelFacts& target) {
  std::vector<OpenedDrafter> opened;
  for (const DraftFolder& folder : folders) {
    const auto formats = draft_formats();
    const auto format = std::ranges::find(formats, folder.name, &DraftFormat::name);
    if (format == formats.end())
      return Error{Code::kInvalid, fmt::format("drafter '{}' is not loaded from a folder", folder.name)};
    const auto same = [&](const OpenedDrafter& other) { return other.folder.name == folder.name; };
    if (std::ranges::any_of(opened, same))
      return Error{Code::kInvalid, fmt::format("drafter {} is given twice; give it once", folder.name)};
    Result<OpenedDrafter> drafter = open(folder, **format, target);
    if (!drafter.ok()) return of_drafter(folder, drafter.error());
    opened.push_back(std::move(*drafter));
  }
  return opened;
}

std::string unused_part(const DraftNetwork& network) {
  const auto formats = draft_formats();
  const auto format = std::ranges::find(formats, network.name, &DraftFormat::name);
  if (format == formats.end() || (*format)->unused_part == nullptr || !network.checkpoint) return {};
  const std::string part = (*format)->unused_part(*network.checkpoint);
  return part.empty() ? part : fmt::format("drafter {}: {}", network.name, part);
}

Result<DraftNetwork> build_drafter(const OpenedDrafter& drafter, const Model& target) {
  Result<DraftNetwork> network = build(drafter, target);
  if (!network.ok()) return of_drafter(drafter.folder, network.error());
  return network;
}

}  // namespace ft
