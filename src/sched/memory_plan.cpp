#include "sched/memory_plan.h"

#include <algorithm>

#include "sched/admission.h"
#include "sched/machine_memory.h"

namespace ft {
namespace {

constexpr std::int64_t kStep = 256;              // tokens; a context that is open is a multiple
constexpr std::int64_t kManyStates = 64;         // of a cache of two prompts: enough for one every 5 %
constexpr std::int64_t kFewStates = 4;           // of a cache of one prompt
constexpr std::int64_t kUnknownCache = 1 << 30;  // bytes, where no limit is known

/// The formulas of one model on one backend.
class Figures {
 public:
  Figures(const Backend& backend, const Model& model, const DecoderOptions& options)
      : backend_(backend), model_(model), options_(options) {}

  MemoryReport needed(int slots, std::int64_t context) const {
    DecoderOptions options = options_;
    options.slots = slots, options.context = context, options.cache_bytes = 0;
    return memory_needed(backend_, model_, options);
  }
  /// A cache of `prompts` prompts of that length, with the states of their snapshots.
  std::int64_t cache(std::int64_t prompts, std::int64_t context) const {
    const MemoryReport one = needed(1, context);
    return prompts * one.key_values + (prompts > 1 ? kManyStates : kFewStates) * one.states;
  }

 private:
  const Backend& backend_;
  const Model& model_;
  const DecoderOptions& options_;
};

/// Leaves room for other programs and for memory that the formulas do not count.
std::int64_t without_spare(std::int64_t limit, bool on_device, bool asked) {
  if (asked) return limit;
  return limit - limit / (on_device ? 16 : 8);
}

struct Division {
  const Figures& figures;
  const MemoryAsk& ask;
  std::int64_t own;    // context of the model
  std::int64_t limit;  // without the reserve
  bool weights_resident;

  std::int64_t needed(int slots, std::int64_t context) const {
    const MemoryReport report = figures.needed(slots, context);
    return report.total() - (weights_resident ? 0 : report.weights);
  }
  bool fits(int slots, std::int64_t context, std::int64_t prompts) const {
    const std::int64_t cache = ask.cache_bytes >= 0 ? ask.cache_bytes : figures.cache(prompts, context);
    return needed(slots, context) + cache <= limit;
  }
  /// The longest context that leaves room for a cache of two prompts, or of one if that context is less than
  /// kRoomyContext; kMinContext if none fits.
  std::int64_t context(int slots) const {
    const std::int64_t two = longest(slots, 2);
    return two >= std::min(own, kRoomyContext) ? two
                                               : std::max(two, std::min(longest(slots, 1), kRoomyContext));
  }
  std::int64_t longest(int slots, std::int64_t prompts) const {
    std::int64_t low = std::min(own, kMinContext), high = own;
    if (fits(slots, high, prompts)) return high;
    while (high - low > kStep) {
      const std::int64_t middle = (low + high) / 2;
      (fits(slots, middle, prompts) ? low : high) = middle;
    }
    return low < own ? std::max(low / kStep * kStep, std::min(own, kMinContext)) : low;
  }
  int slots() const {
    for (int slots = kMaxSlots; slots > 1; slots /= 2) {
      const std::int64_t each = ask.context > 0 ? ask.context : context(slots);
      const bool roomy = ask.context > 0 ? fits(slots, each, 1) : each >= std::min(own, kRoomyContext);
      if (roomy) return slots;
    }
    return 1;
  }
};

}  // namespace

std::int64_t memory_limit(const Backend& backend, const Model& model, std::int64_t asked) {
  if (asked > 0) return asked;
  const std::int64_t of_device = backend.limits(model.target.layout()).memory_bytes;
  return of_device > 0 ? of_device : available_memory();
}

MemoryPlan plan_memory(const Backend& backend, const Model& model, DecoderOptions options,
                       const MemoryAsk& ask) {
  return plan_memory_within(memory_limit(backend, model, ask.limit_bytes), backend, model, options, ask);
}

MemoryPlan plan_memory_within(std::int64_t limit_bytes, const Backend& backend, const Model& model,
                              DecoderOptions options, const MemoryAsk& ask) {
  options = Decoder::resolved(options, backend, model);
  const std::int64_t own = model.facts.context;
  const Figures figures(backend, model, options);
  MemoryPlan plan;
  plan.on_device = backend.limits(model.target.layout()).memory_bytes > 0;
  plan.limit_bytes = limit_bytes;
  plan.usable_bytes = without_spare(limit_bytes, plan.on_device, ask.limit_bytes > 0);
  plan.slots = ask.slots > 0 ? ask.slots : kMaxSlots;
  plan.context = ask.context > 0 ? ask.context : std::min(own, kMinContext);
  plan.cache_bytes = ask.cache_bytes >= 0 ? ask.cache_bytes : kUnknownCache;
  if (limit_bytes > 0) {
    Division division{figures, ask, own, plan.usable_bytes, true};
    const std::int64_t least = std::min(own, kMinContext);
    // Weights from the page cache need all memory that there is, so the plan takes only the minimum.
    const bool too_large = ask.weights_mapped && !division.fits(1, least, 0);
    division.weights_resident = !too_large;
    if (ask.slots == 0) plan.slots = too_large ? 1 : division.slots();
    if (ask.context == 0) plan.context = too_large ? least : division.context(plan.slots);
    if (ask.cache_bytes < 0) {
      const std::int64_t left =
          std::max<std::int64_t>(0, division.limit - division.needed(plan.slots, plan.context));
      const std::int64_t two = figures.cache(2, plan.context);
      plan.cache_bytes = too_large        ? std::min(left, figures.cache(1, plan.context))
                         : plan.on_device ? left
                                          : std::min(left, std::max(two, left / 2));
    }
  }
  plan.whole_context = plan.context == own;
  const MemoryReport one = figures.needed(1, plan.context);
  plan.prompt_bytes = one.key_values + one.states;
  return plan;
}

}  // namespace ft
