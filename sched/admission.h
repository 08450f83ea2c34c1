// Does a model with its slots and cache fit into memory? Weights, keys and values of slots x context,
// recurrent states, scratch and the prefix cache's budget are compared with one limit before anything is
// allocated. The estimate is for the worst case: every slot may reach its context and the cache may be full.
// All of it is reserved, so a request that fits its slot's context fits, whatever the others do. Errors:
// kExhausted with the numbers and what would fit.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "models/model.h"
#include "program/backend.h"
#include "sched/engine_status.h"
#include "speculation/decoder.h"

namespace ft {

/// Memory that `asked` needs. Weights count as in the files until a decoder has packed them.
MemoryReport memory_needed(const Backend& backend, const Model& model, const DecoderOptions& asked);

/// kExhausted if `needed` is more than its limit (0: no limit).
Status check_memory(const MemoryReport& needed, const DecoderOptions& options);

/// kExhausted if the prompt leaves no room for an answer in a slot.
Status check_prompt(std::int64_t prompt_tokens, std::int64_t context);

}  // namespace ft
