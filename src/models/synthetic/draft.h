// Drafters of random weights in a published shape, fitted to any target: `synth:dflash2?bits=4` in place of a
// drafter's folder. They measure what drafts cost. Keys: bits (16, the default; 4, 8, mxfp4, mxfp8, nvfp4),
// group, seed.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "format/checkpoint.h"
#include "format/config_files.h"
#include "models/model_facts.h"
#include "models/synthetic/shapes.h"

namespace ft {

/// Such a drafter of one format.
struct SyntheticDraft {
  std::string_view name;  // after "synth:"
  nlohmann::ordered_json (*config)(const ModelFacts& target);
  std::vector<SynthTensor> (*tensors)(const ModelFacts& target);
};

/// kInvalid: `draft` is null, `name` is not `draft->name`, or a key is wrong.
Result<format::ConfigFiles> synth_draft_config(const std::string& name, const SyntheticDraft* draft,
                                               const ModelFacts& target);
Result<format::Checkpoint> make_synth_draft(const std::string& name, const SyntheticDraft& draft,
                                            const ModelFacts& target);

}  // namespace ft
