// WeightIndex: the tensors of a checkpoint by canonical name, whatever the exporter called them, with shapes
// checked and quantisation resolved. The models floor gets all weights here. Canonical names have no family
// prefix: "embed_tokens.weight", "layers.3.self_attn.q_proj.weight", "layers.0.linear_attn.A_log",
// "norm.weight", "lm_head.weight", "mtp.fc.weight", "mtp.layers.0.mlp.up_proj.weight". Owner: it points into
// the Checkpoint and the ModelConfig, which must outlive it and every StoredMatrix. Thread: one during
// loading, because warnings are collected. Cost: a few string look-ups per tensor; norm questions read one
// tensor. Errors: kNotFound (with the names that were tried), kCorrupt (shape), kUnsupported (element type or
// mode).
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "format/affine.h"
#include "format/checkpoint.h"
#include "format/config.h"

namespace ft::format {

class WeightIndex {
 public:
  WeightIndex(const Checkpoint& checkpoint, const ModelConfig& config)
      : checkpoint_(checkpoint), config_(config) {}

  bool has(std::string_view name) const { return find(name) != nullptr; }
  /// The stored tensor, or nullptr if there is none.
  const TensorView* find(std::string_view name) const;

  /// A matrix of this shape: plain (F32, F16, BF16), affine or block floats. Sides of 1 in the stored shape
  /// do not count. So the convolutions [C,1,4] (Hugging Face) and [C,4,1] (MLX) are both matrix C x 4; their
  /// bytes are the same.
  Result<StoredMatrix> matrix(std::string_view name, std::int64_t rows, std::int64_t cols);
  /// A plain vector of n elements, as a matrix 1 x n.
  Result<StoredMatrix> vector(std::string_view name, std::int64_t n);

  /// True: the stored norms are final. False: raw Hugging Face norms, to which 1 must be added (never to
  /// linear_attn.norm). The evidence is the last side of conv1d, the metadata format, the name prefix and the
  /// mean of the input norms. One side must lead by two signs; otherwise an error lists them.
  Result<bool> norms_are_shifted();
  /// The same for the MTP head: what the contract says; otherwise its place (in a shard of a raw target: raw;
  /// in a sidecar: final). Norms that are declared final are taken as raw, with a warning, if the mean of the
  /// input norm is near 0.
  Result<bool> mtp_norms_are_shifted();

  /// True if the LM head of the target is the embedding, so there is no lm_head. The tensors decide; a config
  /// that says untied while lm_head is absent is an error.
  Result<bool> head_is_tied() const;

  /// Sentences about what was odd but not wrong, in the order of discovery.
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  Result<const TensorView*> need(std::string_view name) const;
  Result<StoredMatrix> plain(const TensorView& tensor, std::int64_t rows, std::int64_t cols) const;
  Result<StoredMatrix> affine(const TensorView& codes, const TensorView& scales, std::int64_t rows,
                              std::int64_t cols);
  Result<StoredMatrix> block_float(const TensorView& codes, const TensorView& scales, std::int64_t rows,
                                   std::int64_t cols);
  Result<bool> count_evidence();
  Result<bool> check_mtp_norms();
  void compare_with_config(const TensorView& codes, const Quantisation& found);
  std::optional<double> mean_of_input_norms(std::string_view prefix, int layers) const;
  void warn(std::string sentence) { warnings_.push_back(std::move(sentence)); }

  const Checkpoint& checkpoint_;
  const ModelConfig& config_;
  std::vector<std::string> warnings_;
};

}  // namespace ft::format
