// Divides the memory at start between slots, context and prefix cache, if the caller leaves one of them open.
// The weights and the scratch come first, then a context for every slot, then the cache.
//   slots    kMaxSlots, or fewer if each would then have less than kRoomyContext tokens
//   context  the model's own, or the longest with a cache of two such prompts; of one where memory is short
//   cache    the rest on a device; half of the rest in the machine's memory, which other programs need too
// Thread: any. Cost: reads a few small files, computes the formulas of sched/admission.h some dozen times.
// Errors: none; a plan that does not fit is refused by check_memory().
#pragma once

#include <cstdint>

#include "models/model.h"
#include "program/backend.h"
#include "speculation/decoder.h"

namespace ft {

/// The caller's choices; 0 slots, 0 tokens and -1 bytes are open.
struct MemoryAsk {
  int slots = 0;
  std::int64_t context = 0;
  std::int64_t cache_bytes = -1;
  std::int64_t limit_bytes = 0;  // for everything; 0: all free memory of the device or the machine
  bool weights_mapped = false;   // weights that do not fit are read from the page cache
};

struct MemoryPlan {
  int slots = 1;
  std::int64_t context = 0, cache_bytes = 0;
  std::int64_t limit_bytes = 0;   // that it was made for; 0: unknown
  std::int64_t usable_bytes = 0;  // of those, without the room for other programs; all if the limit was asked
  bool on_device = false;         // the limit is the memory of the backend's device
  bool whole_context = false;     // the context is the model's own
  std::int64_t prompt_bytes = 0;  // a snapshot of a prompt of the whole context
};

inline constexpr int kMaxSlots = 8;
inline constexpr std::int64_t kRoomyContext = 65536;  // tokens: an agent's conversation
inline constexpr std::int64_t kMinContext = 4096;     // tokens, where the model has as many

/// The limit of a start in bytes: `asked`, else the free memory of the backend's device or this machine; 0 if
/// nothing is known.
std::int64_t memory_limit(const Backend& backend, const Model& model, std::int64_t asked = 0);

/// `options` gives everything that `ask` lacks: drafts, pixels, recall.
MemoryPlan plan_memory(const Backend& backend, const Model& model, DecoderOptions options,
                       const MemoryAsk& ask);

/// The same for a given limit; 0: unknown.
MemoryPlan plan_memory_within(std::int64_t limit_bytes, const Backend& backend, const Model& model,
                              DecoderOptions options, const MemoryAsk& ask);

}  // namespace ft
