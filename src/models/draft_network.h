// Loads drafters that are stored in a separate folder. Each format is a row of the table in draft_network.cpp
// and a folder here. The config is read before the target is built, because the target must capture the
// layers that it names; the network is built after it, because it may share the target's embedding and LM
// head. A folder may also be a name of models/synthetic/draft.h. Errors begin with "drafter NAME:" and end
// with the next step.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/family.h"
#include "models/model.h"
#include "models/synthetic/draft.h"

namespace ft {

/// The configuration of one such drafter; each format derives its own.
struct DraftConfig : FamilyConfig {
  ModelFacts facts() const final { return {}; }
  CapturedLayers captures;  // no layers: it reads no rows of the target
};

struct DraftFormat {
  std::string_view name;  // of --drafter
  /// Null for a network of another kind than the other formats build: a whole model.
  /// Names and prefixes of its tensors; only those fields and `norm_offset` are used.
  const Family* tensors;
  Result<std::unique_ptr<DraftConfig>> (*read_config)(const format::ConfigFiles&, const ModelFacts& target);
  /// Fills programs, widths and blocks; after an error they are undefined. The target is built first.
  Status (*build)(DraftNetwork&, const DraftConfig&, WeightSource&, const Model& target);
  const SyntheticDraft* synthetic = nullptr;  // null: there is none
  /// A sentence about a part of the file that the network does not need; empty: none. Null: nothing can be.
  std::string (*unused_part)(const format::Checkpoint&) = nullptr;
};

std::span<const DraftFormat* const> draft_formats();

/// A drafter whose config is read and whose network is not built.
struct OpenedDrafter {
  DraftFolder folder;
  const DraftFormat* format = nullptr;
  std::unique_ptr<DraftConfig> config;
};

/// kInvalid for a name that no format has or that comes twice, kNotFound for a folder without a config.
Result<std::vector<OpenedDrafter>> open_drafters(std::span<const DraftFolder> folders,
                                                 const ModelFacts& target);
/// DraftFormat's sentence about this network, for notes.
std::string unused_part(const DraftNetwork& network);
Result<DraftNetwork> build_drafter(const OpenedDrafter& drafter, const Model& target);

}  // namespace ft
