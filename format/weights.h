// WeightIndex: the tensors of a checkpoint by canonical name, whatever the exporter called them, with shapes
// checked and quantisation resolved. The models floor asks for weights here and nowhere else. Canonical names
// have no family prefix: "embed_tokens.weight", "layers.3.self_attn.q_proj.weight",
// "layers.0.linear_attn.A_log", "norm.weight", "lm_head.weight", "mtp.fc.weight",
// "mtp.layers.0.mlp.up_proj.weight". Owner: points into the Checkpoint and the ModelConfig, which must
// outlive it and every StoredMatrix. Threads: one while loading (warnings are collected). Cost: a few string
// look-ups a tensor; norm questions read one tensor. Errors: kNotFound (with the names that were tried),
// kCorrupt (shape), kUnsupported (element type or mode).
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
  /// The stored tensor, or nullptr.
  const TensorView* find(std::string_view name) const;

  /// A matrix of that shape, plain (F32, F16, BF16), affine or of block floats. Sides of 1 in the stored
  /// shape do not count, so a convolution [C,1,4] (Hugging Face) and [C,4,1] (MLX), which are the same bytes,
  /// are both matrix C x 4.
  Result<StoredMatrix> matrix(std::string_view name, std::int64_t rows, std::int64_t cols);
  /// A plain vector of n elements, as 1 x n.
  Result<StoredMatrix> vector(std::string_view name, std::int64_t n);

  /// True: the stored norms are final. False: raw Hugging Face norms, to which 1 must be added (never to
  /// linear_attn.norm). Four witnesses vote: the last side of conv1d, metadata format, name prefix, mean of
  /// the input norms; one side must have two votes more than the other, otherwise an error lists them.
  Result<bool> norms_are_shifted();
  /// The same for the MTP head: what the contract says; else its place (a raw trunk's own shard: raw; a
  /// sidecar: final). Norms said to be final whose input norm has a mean near 0 are taken as raw, with a
  /// warning.
  Result<bool> mtp_norms_are_shifted();

  /// True when the head of the trunk is the embedding: there is no lm_head. Decided by the tensors; a config
  /// that says untied while lm_head is absent is an error.
  Result<bool> head_is_tied() const;

  /// Sentences about what was odd but not wrong, in the order found.
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  Result<const TensorView*> need(std::string_view name) const;
  Result<StoredMatrix> plain(const TensorView& tensor, std::int64_t rows, std::int64_t cols) const;
  Result<StoredMatrix> affine(const TensorView& codes, const TensorView& scales, std::int64_t rows,
                              std::int64_t cols);
  Result<StoredMatrix> block_float(const TensorView& codes, const TensorView& scales, std::int64_t rows,
                                   std::int64_t cols);
  Result<bool> count_votes();
  Result<bool> judge_mtp_norms();
  void compare_with_config(const TensorView& codes, const Quantisation& found);
  std::optional<double> mean_of_input_norms(std::string_view prefix, int layers) const;
  void warn(std::string sentence) { warnings_.push_back(std::move(sentence)); }

  const Checkpoint& checkpoint_;
  const ModelConfig& config_;
  std::vector<std::string> warnings_;
};

}  // namespace ft::format
