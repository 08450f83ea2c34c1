#include "speculation/decoder.h"

#include <new>

#include "drafters/guarded.h"

namespace ft {

Decoder::Decoder(std::unique_ptr<Assembly> assembly)
    : assembly_(std::move(assembly)),
      slots_(*assembly_),
      snapshots_(*assembly_),
      round_(assembly_->target(), assembly_->state(), assembly_->options().slots, assembly_->captured(),
             assembly_->options().max_depth, assembly_->images()) {}

Result<std::unique_ptr<Decoder>> Decoder::make(Backend& backend, const Model& model,
                                               const DecoderOptions& options) {
  try {
    FT_ASSIGN(std::unique_ptr<Assembly> assembly, Assembly::make(backend, model, options));
    return std::unique_ptr<Decoder>(new Decoder(std::move(assembly)));
  } catch (const std::bad_alloc&) {  // of code that does not catch it itself; the sentence needs no memory
    return Error{Code::kExhausted, "out of memory"};
  }
}

Status Decoder::prefill(Slot& slot, int rows) {
  const std::int64_t done = slot.timeline->length();
  for (PromptImage& image : slot.images) {
    if (image.read || image.end() <= done || image.first >= done + rows) continue;
    FT_TRY(guarded([&]() -> Status {
      assembly_->encoder()->encode(*image.picture, assembly_->images()->store(),
                                   assembly_->images()->place(slot.id, slot.positions, image.first));
      return {};
    }));
    image.read = true;
    ++images_read_;
  }
  return round_.prefill(slot, rows);
}

void Decoder::observe(const RoundShape& shape, double ms) {
  // The backlog is a cost of drafting in a batch, not a cost of rounds of this shape. A round that took less
  // time than expected without a backlog is news all the same.
  const double expected =
      costs_.round(shape.rows, shape.draft_steps, shape.slots, shape.read) * costs_.verify(1, 1);
  if (shape.backlog_rows == 0 || ms < expected)
    costs_.observe(shape.rows, shape.draft_steps, ms, shape.slots, shape.read, shape.drafter);
}

}  // namespace ft
