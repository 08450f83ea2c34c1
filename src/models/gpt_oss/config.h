// Config: the configuration files of gpt-oss as plain typed values, all checked. Errors name the file, the
// key, the expected and the found value: kInvalid for a bad value, kUnsupported for a model that this version
// does not run. Absent or null keys take the defaults of transformers' GptOssConfig.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/blocks/rope.h"
#include "models/blocks/sizes.h"
#include "models/family.h"

namespace ft::gpt_oss {

struct Config final : FamilyConfig {
  blocks::Sizes sizes;  // intermediate: of an expert
  blocks::Rope rope;
  std::vector<int> windows;  // (sizes.layers) positions that a row sees, its own among them; 0: all
  int experts = 0, experts_per_token = 0;
  double swiglu_alpha = 0, swiglu_limit = 0;
  bool attention_bias = true;
  blocks::Ends ends;

  static Result<Config> read(const format::ConfigFiles& files);
  ModelFacts facts() const override;
};

}  // namespace ft::gpt_oss
