// WeightIndex: the tensors of a checkpoint by canonical name, whatever the exporter called them, with shapes
// checked and quantisation resolved. The models floor gets all weights here. Canonical names have no prefix
// of an exporter: "embed_tokens.weight", "layers.3.self_attn.q_proj.weight", "lm_head.weight". Owner: it
// points into the Checkpoint, which must outlive it and every StoredMatrix. Thread: one during loading,
// because warnings are collected. Cost: a few string look-ups per tensor. Errors: kNotFound (with the names
// that were tried), kCorrupt (shape), kUnsupported (element type or mode).
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "format/affine.h"
#include "format/checkpoint.h"
#include "format/quantisation.h"

namespace ft::format {

/// The prefixes that exporters put before a canonical name; the most common one is first.
struct NamePrefixes {
  std::string_view begins;  // of the canonical name; "" is for every other name
  std::span<const std::string_view> prefixes;
};

/// A family's and a config's description of the tensors of a checkpoint.
struct WeightLayout {
  std::string config_path;                 // for messages
  std::span<const NamePrefixes> prefixes;  // the first entry that a name begins with counts
  QuantisationMap quantisation;
  std::optional<bool> tied;  // tie_word_embeddings
};

class WeightIndex {
 public:
  WeightIndex(const Checkpoint& checkpoint, WeightLayout layout)
      : checkpoint_(checkpoint), layout_(std::move(layout)) {}

  const Checkpoint& checkpoint() const { return checkpoint_; }

  bool has(std::string_view name) const { return find(name) != nullptr; }
  /// The stored tensor, or nullptr if there is none.
  const TensorView* find(std::string_view name) const;

  /// A matrix of this shape: plain (F32, F16, BF16), affine or block floats. Sides of 1 in the stored shape
  /// do not count. So the convolutions [C,1,4] (Hugging Face) and [C,4,1] (MLX) are both matrix C x 4; their
  /// bytes are the same.
  Result<StoredMatrix> matrix(std::string_view name, std::int64_t rows, std::int64_t cols);
  /// A stack of `count` matrices, stored as [count,rows,cols], as one matrix [count * rows, cols].
  Result<StoredMatrix> stack(std::string_view name, std::int64_t count, std::int64_t rows, std::int64_t cols);
  /// The same for a plain tensor of more dimensions: the first is `rows`, the others make `cols` together.
  Result<StoredMatrix> flat_matrix(std::string_view name, std::int64_t rows, std::int64_t cols);
  /// A plain vector of n elements, as a matrix 1 x n.
  Result<StoredMatrix> vector(std::string_view name, std::int64_t n);

  /// A matrix whose rows are made on demand (TensorView::matrix): as its codes if it has some, otherwise as
  /// its values.
  Result<StoredMatrix> made(const TensorView& tensor, std::int64_t rows, std::int64_t cols) const;

  /// True if the LM head of the target is the embedding, so there is no lm_head. The tensors decide; a config
  /// with untied embeddings but no lm_head is an error.
  Result<bool> head_is_tied() const;

  /// Warnings, in the order of discovery.
  const std::vector<std::string>& warnings() const { return warnings_; }
  void warn(std::string sentence) { warnings_.push_back(std::move(sentence)); }

 private:
  Result<const TensorView*> need(std::string_view name) const;
  /// A tensor [rows,..] with the companions that it has; null: none.
  struct Stored {
    const TensorView *codes = nullptr, *scales = nullptr, *biases = nullptr;
  };
  Result<Stored> need_all(std::string_view name) const;
  Result<StoredMatrix> resolve(const Stored& stored, std::int64_t rows, std::int64_t cols);
  Result<StoredMatrix> plain(const TensorView& tensor, std::int64_t rows, std::int64_t cols) const;
  Result<StoredMatrix> affine(const Stored& stored, std::int64_t rows, std::int64_t cols);
  Result<StoredMatrix> block_float(const Stored& stored, std::int64_t rows, std::int64_t cols);
  void compare_with_config(const TensorView& codes, const Quantisation& found);
  std::vector<std::string> candidates(std::string_view name) const;

  const Checkpoint& checkpoint_;
  WeightLayout layout_;
  std::vector<std::string> warnings_;
};

}  // namespace ft::format
