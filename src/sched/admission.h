// Does a model with its slots and cache fit into memory? Weights, keys and values of slots x context,
// recurrent states, scratch and the prefix cache's budget are compared with one limit before anything is
// allocated. The estimate is for the worst case: every slot may reach its context and the cache may be full.
// All of it is reserved, so a request that fits its slot's context fits, whatever the others do. Errors:
// kExhausted with the numbers and a size that would fit.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "models/model.h"
#include "program/backend.h"
#include "sched/engine_status.h"
#include "speculation/decoder.h"

namespace ft {

/// Memory that `asked` needs. Weights count as in the files until a decoder has packed them.
MemoryReport memory_needed(const Backend& backend, const Model& model, const DecoderOptions& asked);

/// The part for pictures, without the tower's weights: the tower's activations, keys, values and rows for a
/// picture of the largest size, and the image rows of every slot. 0 without a tower.
std::int64_t image_bytes(const Backend& backend, const Model& model, const DecoderOptions& options);

/// kExhausted if `needed` is more than its limit (0: no limit).
Status check_memory(const MemoryReport& needed, const DecoderOptions& options);

/// A warning that the weights do not fit and are read from the page cache; each token reads `token_bytes` of
/// them.
std::string page_cache_warning(const MemoryReport& needed, std::int64_t token_bytes);

}  // namespace ft
