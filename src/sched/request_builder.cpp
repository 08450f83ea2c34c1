#include "sched/request_builder.h"

#include <algorithm>
#include <utility>

#include "speculation/context_room.h"

namespace ft {

Result<Request> build_request(RequestFields fields, const RequestOptions& options, const RequestModel& model,
                              bool only_prompt) {
  const auto prompt = static_cast<std::int64_t>(fields.prompt.size());
  FT_TRY(check_room(prompt, model.context));
  const std::int64_t room = model.context - prompt;
  const std::int64_t most = options.max_tokens > 0 ? std::min(options.max_tokens, room) : room;
  SlotOptions& slot = fields.slot;
  slot.context = model.context;
  slot.eos = model.eos;
  slot.max_tokens = only_prompt ? 0 : static_cast<int>(most);
  slot.sampler = chosen(options.sampling, model.sampler);
  slot.sampler.seed = options.seed.value_or(0);
  slot.bias = options.bias.empty() ? model.bias : options.bias;
  slot.logprobs = options.logprobs;
  slot.acceptance = options.acceptance;
  slot.depth = options.depth < 0 ? model.default_depth : options.depth;
  fields.drafter = options.drafter == DrafterKind::kAuto ? model.default_drafter : options.drafter;
  fields.stops = options.stops;
  fields.thinking_budget = options.thinking_budget;
  return Request::make(std::move(fields), model.vocabulary);
}

}  // namespace ft
