// Gives the code of a model its weights by canonical name ("layers.0.mlp.gate_proj", "mtp.fc"). It remembers
// the first error, so that code reads like the model's mathematics and checks once at the end. Owner: the
// build of one model. Cost: a name lookup per weight; it reads data only where stated.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "format/weights.h"
#include "models/family.h"
#include "models/model.h"

namespace ft {

class WeightSource {
 public:
  /// The family's norm convention is applied: a family without one takes norms as they are stored. The
  /// checkpoint and the family must outlive the source.
  static Result<WeightSource> open(const Family& family, const format::Checkpoint& checkpoint,
                                   const FamilyConfig& config);

  bool has(const std::string& name) const;
  /// kNotFound without lm_head if the config says that the LM head is not the embedding.
  Result<bool> head_is_tied() const { return index_.head_is_tied(); }
  /// A Weight without data after a failure; status() has the error.
  Weight matrix(const std::string& name, std::int64_t rows, std::int64_t cols);
  /// The weight of a kernel that covers its whole input: every dimension but the first is one.
  Weight flat_matrix(const std::string& name, std::int64_t rows, std::int64_t cols);
  Weight vector(const std::string& name, std::int64_t size);
  /// A matrix that the family itself has located.
  Weight take(Result<format::StoredMatrix> stored, std::int64_t rows, std::int64_t cols) {
    return keep(std::move(stored), rows, cols);
  }
  /// The matrices of a weight that stacks them vertically, each of `rows` rows.
  static std::vector<Weight> split(const Weight& stack, std::int64_t rows);
  /// Its rows in another order: rows [b * block, (b + 1) * block) are stored from order[b] * block on.
  Weight matrix_in_order(const std::string& name, std::int64_t rows, std::int64_t cols, std::int64_t block,
                         std::vector<std::int64_t> order);
  /// The matrices of a stack of `count`, each [rows, cols]. The stack may be named without ".weight".
  std::vector<Weight> stack(const std::string& name, int count, std::int64_t rows, std::int64_t cols);
  /// A vector to which the norm offset of the target, or of the MTP head for "mtp.", is added.
  Weight norm(const std::string& name, std::int64_t size);
  void set_mtp_norm_offset(float offset) { mtp_norm_offset_ = offset; }

  /// Words before the errors of later look-ups ("layer 3, expert 17"); empty: none.
  void set_context(std::string words) { context_ = std::move(words); }
  /// A failure that the caller found.
  void fail(Error error);
  bool failed() const { return !status_.ok(); }

  /// For the facts that a family reads from its files.
  format::WeightIndex& index() { return index_; }

  /// The first failure since the last call.
  Status status();
  std::string summary() const;  // "affine 4-bit group 32, bf16"
  std::int64_t parameters() const { return parameters_; }

 private:
  WeightSource(const Family& family, format::WeightIndex index);
  std::string stored_name(const std::string& name) const;
  Weight keep(Result<format::StoredMatrix> stored, std::int64_t rows, std::int64_t cols);

  const Family* family_;
  format::WeightIndex index_;
  float norm_offset_ = 0, mtp_norm_offset_ = 0;
  Status status_;
  std::string context_;
  std::map<std::string, std::int64_t> formats_;  // format text -> parameters
  std::set<std::string> counted_;                // by stored name: a tied LM head counts once
  std::int64_t parameters_ = 0;
};

}  // namespace ft
