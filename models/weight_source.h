// Hands weights to a model file by their canonical name ("layers.0.mlp.gate_proj", "mtp.fc") and remembers
// the first thing that is wrong, so that a model file reads like its mathematics and checks once at the end.
// Owner: the build of one model. Thread: one. Cost: a name lookup each; nothing is read but what is stated.
#pragma once

#include <map>
#include <set>
#include <string>

#include "format/weights.h"
#include "models/model.h"

namespace ft {

class WeightSource {
 public:
  /// The checkpoint and the config must outlive the source.
  static Result<WeightSource> open(const format::Checkpoint& checkpoint, const format::ModelConfig& config);

  bool has(const std::string& name) const;
  /// kNotFound if there is no lm_head and the config says that the head is not the embedding.
  Result<bool> head_is_tied() const { return index_.head_is_tied(); }
  /// A Weight without data after a failure; status() says which.
  Weight matrix(const std::string& name, std::int64_t rows, std::int64_t cols);
  Weight vector(const std::string& name, std::int64_t size);
  /// A vector that is stored around zero in Hugging Face's files and around one in MLX's: offset 1 or 0.
  Weight norm(const std::string& name, std::int64_t size);

  /// Decides whether the head's norms need 1 added. The sentence says what was mended, empty if nothing was.
  Result<std::string> settle_head_norms();

  /// The first failure since the last call.
  Status status();
  std::string summary() const;  // "affine 4-bit group 32, bf16"
  std::int64_t parameters() const { return parameters_; }

 private:
  explicit WeightSource(format::WeightIndex index);
  Weight keep(Result<format::StoredMatrix> stored, std::int64_t rows, std::int64_t cols);

  format::WeightIndex index_;
  float trunk_offset_ = 0, head_offset_ = 0;
  Status status_;
  std::map<std::string, std::int64_t> formats_;  // words -> parameters
  std::set<std::string> counted_;                // by stored name: a tied head counts once
  std::int64_t parameters_ = 0;
};

}  // namespace ft
