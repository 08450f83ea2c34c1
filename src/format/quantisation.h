// Quantisation according to config.json and according to the shapes of a module's tensors. If the two differ,
// the shapes win. Formats: MLX affine, mxfp4, mxfp8, nvfp4 (the last without a global scale, because MLX's
// files have no place for one). Errors: kInvalid for malformed keys, kUnsupported for foreign quantisers.
// Source: mlx-lm's `quantization` key (utils.py, quantize_config); the rules are listed at lookup() and
// resolve_affine().
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace ft::format {

enum class QuantMode { kAffine, kMxfp4, kMxfp8, kNvfp4 };

struct Quantisation {
  QuantMode mode = QuantMode::kAffine;
  int bits = 4;
  int group = 64;

  bool operator==(const Quantisation&) const = default;
};

std::string_view quant_mode_name(QuantMode mode);
std::optional<QuantMode> find_quant_mode(std::string_view name);
/// A mode with its usual width and group; a block format has only these.
Quantisation usual_quantisation(QuantMode mode);
/// "affine 4 bits, groups of 64"
std::string quantisation_text(const Quantisation& q);
bool is_affine_width(int bits);   // 2 3 4 5 6 8
bool is_affine_group(int group);  // 32 64 128

/// Strips `.weight`, then any leading `model.` and `language_model.`, so all spellings of a module are equal.
std::string normalised_module(std::string_view path);

/// The config's entry for one module.
struct QuantClaim {
  bool quantised = false;
  Quantisation q;
};

class QuantisationMap {
 public:
  /// Reads `quantization`, otherwise `quantization_config`, of `config` or of its `text_config`. An absent
  /// key gives an empty map. `origin` begins every message. A quant_method that is not MLX's own is
  /// kUnsupported.
  static Result<QuantisationMap> read(const nlohmann::json& config, const std::string& origin);

  /// Takes any spelling of the path. The result depends on what the config lists for it:
  ///   an object   its own values; absent ones are mode affine and that mode's usual width and group, never
  ///               the global values
  ///   false       not quantised
  ///   true        the global values
  ///   nothing     no claim: the module is quantised, with the global values, iff it has scales
  std::optional<QuantClaim> lookup(std::string_view module) const;

  const std::optional<Quantisation>& global() const { return global_; }
  std::size_t overrides() const { return modules_.size(); }

 private:
  std::optional<Quantisation> global_;
  std::map<std::string, QuantClaim> modules_;  // by normalised path
};

/// Width and group of an affine matrix from its shapes alone: in = cols, bits = weight_cols * 32 / in, group
/// = in / scale_cols. Empty if they give no width and group that exist.
std::optional<Quantisation> resolve_affine(std::int64_t cols, std::int64_t weight_cols,
                                           std::int64_t scale_cols);
/// The same for a matrix whose scales are bytes: the one block format with that width and group.
std::optional<Quantisation> resolve_block_float(std::int64_t cols, std::int64_t weight_cols,
                                                std::int64_t scale_cols);

}  // namespace ft::format
