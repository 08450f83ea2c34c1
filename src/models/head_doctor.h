// Examines the state of the MTP head at load. A missing, zeroed or wrongly converted head changes no answer
// and only makes decoding slow, so it would pass unnoticed. It reads the norms, and the matrices up to the
// first byte that is not zero. Source of the repairs: the norm conventions of published sidecar files (mean
// of input_layernorm near 0: raw).
#pragma once

#include <functional>
#include <span>
#include <string>

#include "models/weight_source.h"

namespace ft {

/// A tensor of an MTP head, by canonical name without ".weight".
struct HeadTensor {
  enum class Kind { kMatrix, kNorm };
  std::string name;
  Kind kind = Kind::kMatrix;
  std::int64_t rows = 0, cols = 0;
  int stack = 0;  // of this number of such matrices; 0: one matrix
};

/// A family's description of the MTP head of a model.
struct HeadPlan {
  int layers = 0;  // 0: the config names no MTP head
  std::span<const HeadTensor> tensors;
  /// Decides the offset of the head's norms. Returns a sentence about the repair, empty if none was needed.
  std::function<Result<std::string>()> settle_norms;
  bool by_tensors = false;  // the config has no key for the head: the head exists if one of its tensors does
};

HeadReport examine_head(const Model& model, const HeadPlan& plan, WeightSource& source);

/// The report state for an error about the MTP head's tensors: kNoMemory or kWrongShape.
HeadReport::State state_after(const Error& error);

}  // namespace ft
