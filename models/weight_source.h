// Gives a model file its weights by canonical name ("layers.0.mlp.gate_proj", "mtp.fc"). It remembers the
// first error, so a model file reads like its mathematics and checks once at the end. Owner: the build of one
// model. Cost: a name lookup per weight; it reads data only where stated.
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
  /// kNotFound if there is no lm_head and the config says that the LM head is not the embedding.
  Result<bool> head_is_tied() const { return index_.head_is_tied(); }
  /// A Weight without data after a failure; status() says what failed.
  Weight matrix(const std::string& name, std::int64_t rows, std::int64_t cols);
  Weight vector(const std::string& name, std::int64_t size);
  /// A vector that Hugging Face's files store around zero and MLX's around one: the offset is 1 or 0.
  Weight norm(const std::string& name, std::int64_t size);

  /// Decides whether 1 must be added to the MTP head's norms. Returns a sentence about the repair, empty if
  /// nothing was repaired.
  Result<std::string> settle_head_norms();

  /// The first failure since the last call.
  Status status();
  std::string summary() const;  // "affine 4-bit group 32, bf16"
  std::int64_t parameters() const { return parameters_; }

 private:
  explicit WeightSource(format::WeightIndex index);
  Weight keep(Result<format::StoredMatrix> stored, std::int64_t rows, std::int64_t cols);

  format::WeightIndex index_;
  float target_offset_ = 0, head_offset_ = 0;
  Status status_;
  std::map<std::string, std::int64_t> formats_;  // format text -> parameters
  std::set<std::string> counted_;                // by stored name: a tied LM head counts once
  std::int64_t parameters_ = 0;
};

}  // namespace ft
