// Family: everything that differs between model architectures, as one row of the table in registry.cpp. A
// family has a folder here; generic code asks only this table. A config.json of no family is refused before
// its weights are read.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "format/config_files.h"
#include "format/quantisation.h"
#include "format/weights.h"
#include "models/model_facts.h"

namespace ft {

struct LoadOptions;
struct Model;
class WeightSource;

/// The configuration of one model as its family read it; each family derives its own.
struct FamilyConfig {
  FamilyConfig() = default;
  FamilyConfig(const FamilyConfig&) = default;
  FamilyConfig(FamilyConfig&&) = default;
  FamilyConfig& operator=(const FamilyConfig&) = default;
  FamilyConfig& operator=(FamilyConfig&&) = default;
  virtual ~FamilyConfig() = default;
  virtual ModelFacts facts() const = 0;

  std::string path;  // of config.json, for messages
  format::QuantisationMap quantisation;
  /// tie_word_embeddings of either level. The tensors decide; this only explains.
  std::optional<bool> tied;
};

struct SyntheticModels;

/// How conversions to MLX's format name and treat the family's tensors.
struct ConversionNames {
  std::string_view outer = "";                 // before "model." and "lm_head."
  std::string_view experts = "switch_mlp.";    // the module of stacked experts
  bool inside_experts = false;                 // that module is inside "experts.", not in its place
  std::span<const std::string_view> one_less;  // ends of norms that are stored less 1; MLX adds it
  bool plain_router = false;                   // mlp.gate is never quantised
  bool paired_experts = false;                 // rows of gate and up take turns (convert/paired_experts.h)
};

struct Family {
  std::string_view name;
  std::span<const std::string_view> model_types;  // of config.json

  std::span<const format::NamePrefixes> prefixes;  // of stored names
  std::span<const std::string_view> bare_names;    // last parts of parameters that do not end in ".weight"

  Result<std::unique_ptr<FamilyConfig>> (*read_config)(const format::ConfigFiles&,
                                                       const std::string& model_type);
  /// The number to add to the stored norms of the target. Null: norms multiply as they are stored, and the
  /// files are not examined to find it.
  Result<float> (*norm_offset)(format::WeightIndex&, const FamilyConfig&);
  /// Fills the target, the MTP head and facts of the weights. `model.facts` and `model.checkpoint` are set.
  Status (*build)(Model&, const FamilyConfig&, WeightSource&, const LoadOptions&);

  ConversionNames conversion = {};
  /// Names of formats that its chat templates may have, in the order in which templates are asked
  /// (text/chat_format.h); the last one takes any template.
  std::span<const std::string_view> chat_formats = {};
  const SyntheticModels* synthetic = nullptr;  // never null in families()
  /// Files hold the MTP head as the layer after the last one (models/head_layer.h).
  bool head_is_a_layer = false;
};

std::span<const Family* const> families();
/// By model_type of config.json; null if there is none.
const Family* find_family(std::string_view model_type);
/// The chat formats of the family with this name; empty if there is none.
std::span<const std::string_view> chat_formats_of(std::string_view family);

struct FamilyMatch {
  const Family* family;
  std::unique_ptr<FamilyConfig> config;
};
/// Chooses the family by model_type and reads the config. kUnsupported names the architecture and lists what
/// runs.
Result<FamilyMatch> read_config(const format::ConfigFiles& files);

}  // namespace ft
