// Whether a model, its slots and its cache fit into memory, before anything is allocated: weights, keys and
// values of slots x context, recurrent states, scratch and the prefix cache's budget against one limit. A
// hard model: every slot may reach its context, the cache may be full. Because all of it is set aside, a
// request that fits its slot's context fits, whatever the others do. Errors: kExhausted with the numbers and
// what would fit.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "models/model.h"
#include "program/backend.h"
#include "sched/engine_status.h"
#include "spec/decoder.h"

namespace ft {

/// Memory that `options` asks of the machine. Weights are those of the files until a decoder has packed them.
MemoryReport memory_needed(const Backend& backend, const Model& model, const DecoderOptions& asked);

/// kExhausted if `needed` is more than its limit (0: no limit).
Status check_memory(const MemoryReport& needed, const DecoderOptions& options);

/// Whether a prompt leaves room for an answer in a slot.
Status check_prompt(std::int64_t prompt_tokens, std::int64_t context);

}  // namespace ft
