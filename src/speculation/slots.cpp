#include "speculation/slots.h"

#include <algorithm>
#include <fmt/format.h>
#include <limits>

#include "speculation/context_room.h"

namespace ft {

namespace {

/// Tokens that the model's files forbid.
void suppress(std::span<const int> tokens, std::vector<LogitBias>& bias) {
  if (tokens.empty()) return;
  std::erase_if(bias,
                [&](const LogitBias& one) { return std::ranges::find(tokens, one.token) != tokens.end(); });
  for (const int token : tokens) bias.push_back({token, -std::numeric_limits<float>::infinity()});
  std::ranges::sort(bias, {}, &LogitBias::token);
}

}  // namespace

Slots::Slots(const Assembly& assembly)
    : assembly_(assembly), used_(static_cast<std::size_t>(assembly.options().slots)) {
  for (const auto& drafter : assembly.drafters()) {
    for (int context = 0; context < Drafter::kContextClasses; ++context)
      prior_.expect(drafter->number(), context, drafter->first_guess(context));
  }
}

Result<std::unique_ptr<Slot>> Slots::open(std::span<const std::int32_t> prompt, SlotOptions options,
                                          DrafterKind kind, const PrefixHit& hit,
                                          std::span<const PromptImage> images) {
  if (prompt.empty()) return Error{Code::kInvalid, "the prompt is empty; give at least one token"};
  options.context = options.context > 0 ? std::min(options.context, assembly_.options().context)
                                        : assembly_.options().context;
  FT_TRY(check_room(static_cast<std::int64_t>(prompt.size()), options.context));
  for (const std::int32_t token : prompt) {
    if (token >= 0 && token < assembly_.target().vocabulary()) continue;
    return Error{Code::kInvalid, fmt::format("token id {} is outside the vocabulary of {}", token,
                                             assembly_.target().vocabulary())};
  }
  const auto free = std::find(used_.begin(), used_.end(), 0);
  if (free == used_.end()) return Error{Code::kExhausted, "all slots are in use; wait for one to end"};
  auto slot = std::make_unique<Slot>();
  slot->id = static_cast<int>(free - used_.begin());
  const Snapshot* past = hit.snapshot;
  FT_ASSERT(past == nullptr || (hit.length >= past->low() && hit.length <= past->high() &&
                                hit.length < static_cast<std::int64_t>(prompt.size())));
  FT_ASSIGN(slot->timeline,
            past != nullptr ? past->timeline.fork(hit.length) : Timeline::open(assembly_.pool()));
  slot->timeline->reserve(options.context + assembly_.options().max_depth + 1);
  FT_TRY(take_images(*slot, images));
  slot->drafter = assembly_.drafter(kind);
  if (slot->drafter != nullptr) FT_TRY(open_drafter(*slot, hit));
  slot->options = std::move(options);
  suppress(assembly_.model().facts.suppressed_ids, slot->options.bias);
  slot->policy = DepthPolicy(slot->options.depth, prior_);
  slot->tokens.reserve(static_cast<std::size_t>(slot->options.context + assembly_.options().max_depth) + 1);
  slot->tokens.assign(prompt.begin(), prompt.end());
  slot->prompt_tokens = static_cast<int>(prompt.size());
  slot->history.reserve(
      std::min(slot->tokens.capacity(), static_cast<std::size_t>(assembly_.target().vocabulary())));
  slot->history.add_prompt(prompt);
  *free = 1;
  return slot;
}

/// With the drafter's memory from the snapshot, if this drafter accepts it.
Status Slots::open_drafter(Slot& slot, const PrefixHit& hit) {
  const DraftMemory* memory = hit.snapshot != nullptr ? hit.snapshot->draft.get() : nullptr;
  if (memory == nullptr || !slot.drafter->restores(*memory)) {
    FT_TRY(slot.drafter->open(slot.id, slot.timeline->length()));
  } else {
    FT_TRY(slot.drafter->restore(slot.id, *memory, hit.length));
  }
  slot.drafter->set_positions(slot.id, slot.positions);
  return {};
}

/// Gives the slot its images, which must be at the positions of their tokens.
Status Slots::take_images(Slot& slot, std::span<const PromptImage> images) const {
  if (images.empty()) return {};
  if (assembly_.encoder() == nullptr) return Error{Code::kUnsupported, assembly_.images_problem()};
  std::int64_t tokens = 0;
  for (const PromptImage& image : images) {
    const images::Picture& picture = *image.picture;
    slot.positions.add({image.first, picture.token_rows(), picture.token_columns()});
    tokens += picture.tokens();
    if (picture.pixels.size.pixels() > assembly_.encoder()->max_pixels()) {
      return Error{Code::kInvalid,
                   fmt::format("an image has {} pixels, but at most {} are accepted; use --max-pixels",
                               picture.pixels.size.pixels(), assembly_.encoder()->max_pixels())};
    }
  }
  if (tokens > assembly_.images()->area()) {
    return Error{
        Code::kExhausted,
        fmt::format("the images have {} tokens, but a prompt may have {}; send fewer or smaller ones", tokens,
                    assembly_.images()->area())};
  }
  slot.images.assign(images.begin(), images.end());
  for (PromptImage& image : slot.images) image.read = false;  // not into this slot's area
  return {};
}

void Slots::close(Slot& slot) {
  slot.policy.teach(prior_, static_cast<int>(std::ranges::count(used_, 1)));
  if (slot.drafter != nullptr) slot.drafter->learn(slot.tokens, slot.options.owner);
  if (slot.drafter != nullptr) slot.drafter->close(slot.id);
  slot.timeline.reset();
  used_[static_cast<std::size_t>(slot.id)] = 0;
}

Result<std::unique_ptr<Slot>> Slots::fork(const Slot& slot, SlotOptions options, DrafterKind kind) {
  const auto prompt =
      std::span<const std::int32_t>(slot.tokens).first(static_cast<std::size_t>(slot.prompt_tokens));
  FT_ASSIGN(std::unique_ptr<Slot> copy, open(prompt, std::move(options), kind, {}, slot.images));
  if (Status status = continue_from(slot, *copy); !status.ok()) {
    close(*copy);
    return status.error();
  }
  return copy;
}

Status Slots::continue_from(const Slot& slot, Slot& copy) {
  copy.timeline.reset();  // its slot of the pool is the one that the fork needs
  FT_ASSIGN(copy.timeline, slot.timeline->fork());
  copy.timeline->reserve(copy.options.context + static_cast<std::int64_t>(kMaxDraftTokens) + 1);
  if (copy.drafter == nullptr) return {};
  const std::int64_t length = copy.timeline->length();
  std::unique_ptr<DraftMemory> memory;
  if (slot.drafter != nullptr && slot.drafter->remembers()) {
    FT_ASSIGN(memory, slot.drafter->save(slot.id));
  }
  if (memory && copy.drafter->restores(*memory)) {
    FT_TRY(copy.drafter->restore(copy.id, *memory, length));
  } else {
    FT_TRY(copy.drafter->open(copy.id, length));
  }
  copy.drafter->set_positions(copy.id, copy.positions);
  return {};
}

}  // namespace ft
