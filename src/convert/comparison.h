// Compares a converted folder with its source, tensor by tensor: every byte is read back, codes are decoded
// and compared with their source values. Cost: one pass over both. Errors: as Checkpoint::open, and
// kCorrupt for a tensor that is absent or of another shape.
#pragma once

#include <string>
#include <vector>

#include "convert/encode.h"

namespace ft::convert {

/// One matrix that was quantised. Cosine and relative error are taken over all its elements, in double.
struct TensorError {
  std::string name;
  format::Quantisation q;
  double cosine = 1, relative = 0;  // relative: root of sum (w' - w)^2 / sum w^2
};

struct Comparison {
  std::vector<TensorError> quantised;  // in the order of the plan
  int kept = 0;                        // tensors that equal the source byte for byte
  std::vector<std::string> changed;    // names of kept tensors that differ: a fault
};

Result<Comparison> compare(const Plan& plan, const std::string& directory, int threads,
                           const ProgressCall& progress);

}  // namespace ft::convert
