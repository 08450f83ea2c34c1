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

struct Family {
  std::string_view name;
  std::span<const std::string_view> model_types;  // of config.json

  std::span<const format::NamePrefixes> prefixes;  // of stored names
  std::span<const std::string_view> bare_names;    // last parts of parameters that do not end in ".weight"

  Result<std::unique_ptr<FamilyConfig>> (*read_config)(const format::ConfigFiles&,
                                                       const std::string& model_type);
  /// What must be added to the stored norms of the target. Null: norms multiply as they are stored, and no
  /// evidence is weighed.
  Result<float> (*norm_offset)(format::WeightIndex&, const FamilyConfig&);
  /// Fills the target, the MTP head and what the weights say. `model.facts` and `model.checkpoint` are set.
  Status (*build)(Model&, const FamilyConfig&, WeightSource&, const LoadOptions&);
};

std::span<const Family* const> families();

struct FamilyMatch {
  const Family* family;
  std::unique_ptr<FamilyConfig> config;
};
/// Chooses the family by model_type and reads the config. kUnsupported names the architecture and lists what
/// runs.
Result<FamilyMatch> read_config(const format::ConfigFiles& files);

}  // namespace ft
