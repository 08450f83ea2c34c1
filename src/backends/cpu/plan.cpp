#include "backends/cpu/plan.h"

#include <algorithm>

#include "backends/cpu/memory.h"

namespace ft::cpu {

Plan::Plan(const Program& program, const BarrierPlan& barriers, const CompileOptions& options, int workers,
           const std::vector<std::int64_t>& scratch_bytes)
    : rows_(static_cast<std::size_t>(program.row_count())), scratch_(program.instructions().size()) {
  const int end = static_cast<int>(program.instructions().size());
  std::vector<Span*> spans;
  for (int at = 0; at < end; ++at) {
    const Instruction& instruction = program.instructions()[static_cast<std::size_t>(at)];
    const int phase = barriers.fixed_phase(at);
    const Operands touched = operands(program, instruction, workers);
    for (const Operands::Operand& write : touched.writes) {
      const int id = write.row.id;
      if (id == program.row_count()) continue;  // the logits are outside the arena
      Span& span = rows_[static_cast<std::size_t>(id)];
      const int copied = barriers.replicated(id) ? workers * small_batch_rows(options) : 0;
      const std::int64_t floats =
          static_cast<std::int64_t>(write.row.width) * std::max(options.max_rows, copied);
      span = {round_up(floats * static_cast<std::int64_t>(sizeof(float)), 64), phase, phase, 0};
      spans.push_back(&span);
    }
    for (const Operands::Operand& read : touched.reads) {
      if (read.row.id < program.row_count()) rows_[static_cast<std::size_t>(read.row.id)].last = phase;
    }
    Span& scratch = scratch_[static_cast<std::size_t>(at)];
    scratch = {round_up(scratch_bytes[static_cast<std::size_t>(at)], 64), phase, phase, 0};
    if (scratch.bytes > 0) spans.push_back(&scratch);
  }
  for (Span* span : spans) span->last = std::max(span->last, span->first);
  // Rows that the caller reads after the step live until the end.
  for (int at = 0; at < end; ++at) {
    if (const auto* capture = std::get_if<Capture>(&program.instructions()[static_cast<std::size_t>(at)])) {
      rows_[static_cast<std::size_t>(capture->in.id)].last = end;
    }
    const auto* walk = std::get_if<Walk>(&program.instructions()[static_cast<std::size_t>(at)]);
    if (walk != nullptr && walk->factors.id >= 0)
      rows_[static_cast<std::size_t>(walk->factors.id)].last = end;
  }
  place(spans);
}

// First fit in order of first use: simple, and close to the maximum of the rows that live at once.
void Plan::place(std::vector<Span*>& spans) {
  std::vector<Span*> placed;  // by offset
  for (Span* span : spans) {
    std::int64_t offset = 0;
    for (const Span* other : placed) {
      if (other->last < span->first || other->first > span->last) continue;
      if (offset + span->bytes <= other->offset) break;
      offset = std::max(offset, other->offset + other->bytes);
    }
    span->offset = offset;
    const auto where = std::upper_bound(placed.begin(), placed.end(), span,
                                        [](const Span* a, const Span* b) { return a->offset < b->offset; });
    placed.insert(where, span);
    bytes_ = std::max(bytes_, offset + span->bytes);
  }
}

}  // namespace ft::cpu
