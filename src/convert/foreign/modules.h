// Reads the modules of foreign quantisers: FP8 (block, row, tensor), compressed-tensors (packed integers,
// NVFP4, MXFP4, MXFP8), ModelOpt NVFP4, GPTQ and AutoAWQ. The tensors decide the kind of a module;
// config.json supplies the rest. Every shape is checked before a byte is read. Errors: kUnsupported for a
// layout that is not read (named), kCorrupt for shapes that do not fit. Sources of the layouts:
// compressed-tensors 0.20, GPTQModel, AutoAWQ, ModelOpt's export.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "convert/source.h"

namespace ft::convert {

/// The quantiser according to config.json.
struct ForeignConfig {
  std::string method;   // "gptq", "awq", "fp8", "compressed-tensors", "modelopt"; empty: none
  std::string version;  // AWQ: "gemm", "gemv"; GPTQ: checkpoint_format
  int bits = 4;
  std::int64_t group = 128;  // -1: one a row
  std::int64_t block_rows = 128, block_cols = 128;
};

/// Reads quantization_config of either level, if any.
Result<ForeignConfig> read_foreign_config(const nlohmann::json& config, const std::string& origin);

/// True if some tensor belongs to a foreign quantiser.
bool has_foreign_parts(const format::Checkpoint& checkpoint);

/// All tensors, with the modules of the quantiser as matrices. `float32_scales`: use float32 if an asymmetric
/// grid needs it to be exact.
Result<std::vector<SourceTensor>> read_foreign(const format::Checkpoint& checkpoint,
                                               const ForeignConfig& config, bool float32_scales);

/// "GPTQ", "FP8"
std::string foreign_format_name(const ForeignConfig& config);

}  // namespace ft::convert
