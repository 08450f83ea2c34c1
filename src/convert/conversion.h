// A whole conversion: from an opened source to a folder that MLX and foretoken load. It is resumable: files
// appear whole, convert.state names the plan that they belong to, and config.json comes last. Errors:
// kInvalid for a folder with other contents; as write_file.
#pragma once

#include <string>

#include "convert/encode.h"

namespace ft::convert {

struct ConversionOptions {
  std::string directory;  // to write
  int threads = 0;        // 0: one a core
  bool force = false;     // replace an existing model
};

struct ConversionResult {
  std::uint64_t bytes = 0;  // of weights
  int files = 0, kept = 0;  // kept: files of an earlier, stopped run
};

Result<ConversionResult> convert_model(const Source& source, const Recipe& recipe, const Plan& plan,
                                       const ConversionOptions& options, const ProgressCall& progress);

}  // namespace ft::convert
