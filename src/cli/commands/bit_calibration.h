// `quantize --calibrate`: which matrices need more bits. Each one is quantised alone, in memory, and the
// engine measures how far the model's predictions move on a text; convert/budget.h spends the bytes. The
// result is a recipe that names each module. Cost: one load of the model, and for each matrix one packing and
// one pass over the text. Errors: kUnsupported for a source that does not run as it is, kInvalid for a base
// that is not affine.
#pragma once

#include <functional>
#include <string>

#include "convert/plan.h"

namespace ft::cli {

struct BitCalibration {
  std::string text;
  std::int64_t tokens = 1024;  // of the text, at most
  double average_bits = 0;     // of a weight that is quantised; 0: as many bytes as the base recipe takes
  int threads = 0;             // 0: one a core
};

struct CalibratedRecipe {
  convert::Recipe recipe;
  std::string toml;  // the same for --recipe
  std::string note;  // a sentence about the measurement
};

/// `progress` receives the finished and the total number of matrices; false stops.
Result<CalibratedRecipe> calibrate_bits(const convert::Source& source, const convert::Recipe& base,
                                        const BitCalibration& options,
                                        const std::function<bool(std::int64_t, std::int64_t)>& progress);

}  // namespace ft::cli
