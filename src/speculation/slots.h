// Slots: opens, forks and closes the slots of an assembly, and keeps the acceptance of ended requests for the
// next ones. Owner: speculation/decoder.h. Thread: the engine thread. Errors: kInvalid for a prompt that is
// empty, holds ids outside the vocabulary or leaves no room in the context; kExhausted if no slot or block is
// free.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "speculation/assembly.h"
#include "speculation/round.h"

namespace ft {

class Slots {
 public:
  /// `assembly` must outlive it.
  explicit Slots(const Assembly& assembly);

  /// A slot with its prompt, not yet prefilled.
  Result<std::unique_ptr<Slot>> open(std::span<const std::int32_t> prompt, SlotOptions options,
                                     DrafterKind kind, const PrefixHit& hit,
                                     std::span<const PromptImage> images);
  void close(Slot& slot);
  /// A slot that continues `slot` from its prompt state with other options: no prompt work is repeated.
  Result<std::unique_ptr<Slot>> fork(const Slot& slot, SlotOptions options, DrafterKind kind);

 private:
  Status take_images(Slot& slot, std::span<const PromptImage> images) const;
  static Status open_drafter(Slot& slot, const PrefixHit& hit);
  static Status continue_from(const Slot& slot, Slot& copy);

  const Assembly& assembly_;
  std::vector<char> used_;  // [slots]
  AcceptancePrior prior_;
};

}  // namespace ft
