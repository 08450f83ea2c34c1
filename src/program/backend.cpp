#include "program/backend.h"

#include <algorithm>

namespace ft {
namespace {

/// Upper bound of the activation rows: kLive rows of the widest instruction. A plan that overlays rows needs
/// about half.
std::int64_t scratch_bound(const Program& program, const Occupancy& use) {
  struct Widths final : Describer {
    void writes(Row, int width, Granularity) override { written += width; }
    void writes_logits(std::int64_t columns) override { logits = columns; }
    std::int64_t written = 0, logits = 0;
  } widths;
  std::int64_t widest = 0;
  for (const Instruction& instruction : program.instructions()) {
    widths.written = 0;
    describe(instruction, widths);
    widest = std::max(widest, widths.written);
  }
  constexpr std::int64_t kLive = 6;  // rows of that width alive at once, with their conversions
  return static_cast<std::int64_t>(sizeof(float)) *
         (kLive * widest * use.rows + widths.logits * use.logit_rows);
}

/// A store and a copy of its rows on the host.
class CopiedBorder final : public RowBorder {
 public:
  explicit CopiedBorder(std::unique_ptr<RowStore> rows)
      : rows_(std::move(rows)),
        host_(static_cast<std::size_t>(rows_->width()) * static_cast<std::size_t>(rows_->capacity())) {}
  RowStore& rows() override { return *rows_; }
  std::span<const float> fetch(int count) override {
    rows_->read(0, fill(count));
    return fill(count);
  }
  std::span<float> fill(int count) override {
    return std::span(host_).first(static_cast<std::size_t>(rows_->width()) * static_cast<std::size_t>(count));
  }
  void send(int count) override { rows_->write(0, fill(count)); }

 private:
  std::unique_ptr<RowStore> rows_;
  std::vector<float> host_;
};

}  // namespace

Result<std::unique_ptr<RowBorder>> Backend::make_border(int width, int capacity) {
  FT_ASSIGN(std::unique_ptr<RowStore> rows, make_rows(width, capacity));
  return std::unique_ptr<RowBorder>(std::make_unique<CopiedBorder>(std::move(rows)));
}

ProgramMemory Backend::memory_for(const Program& program, const Occupancy& use) const {
  const Limits one = limits(program.layout());
  const SlidingWindowPart windows = use.window_blocks > 0 ? one.sliding_window_part : SlidingWindowPart{};
  const std::int64_t held = std::min<std::int64_t>(use.blocks, use.window_blocks);
  ProgramMemory memory;
  memory.weights = program.bytes_held();
  memory.key_values = (one.block_bytes - windows.block_bytes) * use.blocks * use.slots;
  memory.states = (one.slot_bytes + windows.block_bytes * held) * use.slots;
  memory.scratch = scratch_bound(program, use);
  return memory;
}

}  // namespace ft
