// Source: a checkpoint to convert, opened by its headers, whatever its format: every tensor under the name of
// the Hugging Face original, decoded on demand. Owner: the Source keeps the files mapped; its matrices and
// views die with it. Errors: as Checkpoint::open, and kUnsupported for a format that cannot be read.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "format/checkpoint.h"
#include "format/json_text.h"
#include "format/matrix_source.h"

namespace ft::convert {

struct SourceTensor {
  std::string name;                            // "model.language_model.layers.0.mlp.gate_proj.weight"
  std::vector<std::int64_t> shape;             // decoded
  const format::TensorView* stored = nullptr;  // plain tensors only: their bytes
  format::MatrixPointer matrix;                // tensors of floats or codes; nullptr for integers
};

struct Source {
  std::string directory;
  std::string format;           // "safetensors, bf16", "GPTQ", for messages and the model card
  bool quantised = false;       // some matrices are codes
  bool shifted_norms = false;   // the norms of a family that adds 1 are final already
  format::JsonDocument config;  // config.json
  std::unique_ptr<format::Checkpoint> checkpoint;
  std::vector<SourceTensor> tensors;              // sorted by name
  std::map<std::string, std::string> made_files;  // by name: texts that the source holds in another form
  std::shared_ptr<const void> owner;              // of bytes that are not the checkpoint's
  std::function<void()> drop_pages;               // frees the memory of bytes already read
  std::string fingerprint;                        // changes when the files do
};

/// A model folder, plain or of a foreign quantiser, or a GGUF file. `float32_scales`: keep scales and biases
/// as float32 where the source's own type would round them.
Result<Source> open_source(const std::string& path, bool float32_scales = false);

/// The codes of a matrix if MLX can read them, that is, without groups of 16.
std::optional<format::CodeFormat> mlx_codes(const format::MatrixSource& matrix);

using format::rows_of;

}  // namespace ft::convert
