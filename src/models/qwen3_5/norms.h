// The norm convention of the family: Hugging Face's files store norms around 0, MLX's around 1. No field of a
// checkpoint states which, so evidence decides. Only for checkpoints of this family.
#pragma once

#include "base/result.h"
#include "format/weights.h"
#include "models/qwen3_5/config.h"

namespace ft::qwen3_5 {

/// True: the stored norms are final. False: raw Hugging Face norms, to which 1 must be added (never to
/// linear_attn.norm). The evidence is the last side of conv1d, the metadata format, the name prefix and the
/// mean of the input norms. One answer must lead by two signs; otherwise an error lists them.
Result<bool> norms_are_shifted(format::WeightIndex& index, const Config& config);

/// The same for the MTP head, by the contract; without one, by its place (in a shard of a raw target: raw;
/// in a sidecar: final). Norms that are declared final are taken as raw, with a warning, if the mean of the
/// input norm is near 0.
Result<bool> mtp_norms_are_shifted(format::WeightIndex& index, const Config& config);

}  // namespace ft::qwen3_5
