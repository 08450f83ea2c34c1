// How a GGUF file arranges a model: the config.json of the Hugging Face original made from its metadata, and
// for each tensor its name there and the order of its parts. One class for each group of architectures,
// listed in architecture.cpp; the loader and `convert` read GGUF files through it alone. Owner: the caller
// that opened the file, which must outlive it. Errors: kCorrupt for metadata that no model has, kUnsupported
// for an architecture that is not read, by name.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "format/gguf/container.h"

namespace ft::gguf {

/// The side of a tensor with another order. Block b of the original is block order[b] of the file.
enum class Ordered { kNothing, kRows, kColumns };

/// A tensor of the file as one of the original.
struct Place {
  std::string name;  // "model.layers.0.self_attn.q_proj.weight"; empty: it repeats another tensor
  Ordered ordered = Ordered::kNothing;
  std::int64_t first = 0;  // rows before it are as they are
  std::shared_ptr<const std::vector<std::int64_t>> order = nullptr;
  bool decay = false;      // the file holds -exp(x) of the original's x
  bool in_memory = false;  // small: it is decoded once, when the file is opened
};

/// Rows of a tensor that some converters store as a separate tensor.
struct Piece {
  std::string_view rest;  // "attn_q.weight"
  std::int64_t rows = 0;
};

class Architecture {
 public:
  Architecture() = default;
  Architecture(const Architecture&) = delete;
  Architecture& operator=(const Architecture&) = delete;
  virtual ~Architecture() = default;

  virtual nlohmann::json config() const = 0;
  /// The consecutive parts of a tensor that holds several of the original; empty: it is one.
  virtual std::vector<Piece> pieces(const format::GgufTensor&) const { return {}; }
  /// Empty: the original has no such tensor.
  virtual std::optional<Place> place(const format::GgufTensor& tensor) const = 0;
  /// The shape in the original, from the shape in the file.
  virtual std::vector<std::int64_t> shape(const Place&, std::vector<std::int64_t> stored) const {
    return stored;
  }
};

/// By general.architecture. `path` begins the messages.
Result<std::unique_ptr<Architecture>> find_architecture(const format::GgufFile& file,
                                                        const std::string& path);

/// The family of such an architecture; kUnsupported lists those that are known.
Result<std::string> family_of(const std::string& architecture, const std::string& path);

/// Rows of a table of names.
struct NameRow {
  std::string_view gguf, own;
};
/// "blk.12.attn_q.weight": 12 and "attn_q.weight"; nullopt for any other name.
struct BlockName {
  std::int64_t block = 0;
  std::string_view rest;
};
std::optional<BlockName> block_name(std::string_view gguf);
/// The name of a tensor with all experts of a layer: in "mlp.switch_mlp" or, if the file holds gate and up of
/// the block as one tensor (gate first), in "mlp.experts". Empty for any other tensor.
std::string experts_name(const format::GgufFile& file, const BlockName& block);
/// Rows of the embedding; 0 if the file has none.
std::int64_t vocabulary_of(const format::GgufFile& file);
bool has_tensor(const format::GgufFile& file, std::string_view name);

Result<std::unique_ptr<Architecture>> open_gemma4(const format::GgufFile& file, const std::string& path);
Result<std::unique_ptr<Architecture>> open_glm4moe(const format::GgufFile& file, const std::string& path);
Result<std::unique_ptr<Architecture>> open_gpt_oss(const format::GgufFile& file, const std::string& path);
Result<std::unique_ptr<Architecture>> open_llama(const format::GgufFile& file, const std::string& path);
Result<std::unique_ptr<Architecture>> open_qwen35(const format::GgufFile& file, const std::string& path);

}  // namespace ft::gguf
