// The kinds of drafters that `tune` trains: which models they fit, what they read of the target, and their
// part of the job for the training program.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "models/model.h"

namespace ft::cli {

class TuneKind {
 public:
  /// "eagle3", "mtp" or "dflash2"; kInvalid with the list otherwise.
  static Result<TuneKind> parse(std::string_view name);

  std::string_view name() const { return name_; }
  /// Of the drafter that runs it.
  std::string_view drafter() const { return is_block() ? "dflash" : name_; }
  /// "An EAGLE-3 drafter".
  std::string_view words() const;
  /// An MTP head, a sidecar of the model. Others are in folders.
  bool is_head() const { return name_ == "mtp"; }
  /// The file of its weights.
  std::string_view file() const { return is_head() ? "mtp.safetensors" : "model.safetensors"; }

  /// kUnsupported with the reason if this model cannot have one.
  Status check(const Model& model) const;
  /// Layers of the target whose rows it reads; empty: it reads the last row alone.
  std::vector<int> layers(const Model& model) const;
  /// Tokens that it learns to draft.
  int draft_vocabulary(int vocabulary) const;
  /// Sizes of its network, and what else depends on the kind.
  nlohmann::ordered_json sizes(const Model& model) const;
  /// Weights of its network, of a drafter that reads rows of this width.
  std::int64_t weights(const Model& model, int width, int draft_vocabulary) const;

 private:
  explicit TuneKind(std::string_view name) : name_(name) {}
  bool is_block() const { return name_ == "dflash2"; }
  std::string_view name_;
};

}  // namespace ft::cli
