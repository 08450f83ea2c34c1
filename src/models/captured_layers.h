// Hidden rows of a target that the network of a drafter reads: the outputs of several layers side by side, as
// one Capture. A family's build calls after() for the embedding and for each layer.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "program/program.h"

namespace ft {

struct CapturedLayers {
  std::string name;         // of the Capture
  std::vector<int> layers;  // ascending, counted from 0; -1 is the embedding
};

class LayerCaptures {
 public:
  /// `wanted` must outlive it and name only layers of the target (check_layers).
  LayerCaptures(Program& program, std::span<const CapturedLayers> wanted)
      : program_(program), wanted_(wanted), rows_(wanted.size()) {}

  /// `x`: the residual stream after layer `layer`, without a norm; -1: after the embedding.
  void after(int layer, Row x);

 private:
  Program& program_;
  std::span<const CapturedLayers> wanted_;
  std::vector<Row> rows_;  // [wanted] the rows captured so far
};

/// kInvalid with the reason if a target with `layers` layers cannot capture this list.
Status check_layers(const CapturedLayers& wanted, int layers);

}  // namespace ft
