#include "sched/admission.h"

#include <algorithm>
#include <fmt/format.h>

namespace ft {
namespace {

std::int64_t positions_of(std::int64_t context, int max_depth) {
  return Decoder::blocks_of(context, max_depth) * std::int64_t{kBlockRows};
}

/// Upper bound of the activation rows: every row of the list at its full width. A backend's plan overlays
/// them and needs about half.
std::int64_t scratch_of(const Program& program, std::int64_t rows, std::int64_t logit_rows) {
  struct Widths final : Describer {
    void writes(Row, int width, Grain) override { written += width; }
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
  return static_cast<std::int64_t>(sizeof(float)) * (kLive * widest * rows + widths.logits * logit_rows);
}

double gigabytes(std::int64_t bytes) { return static_cast<double>(bytes) * 1e-9; }

}  // namespace

MemoryReport memory_needed(const Backend& backend, const Model& model, const DecoderOptions& asked) {
  const DecoderOptions options = Decoder::resolved(asked, backend, model);
  MemoryReport report;
  const std::int64_t positions = positions_of(options.context, options.max_depth) * options.slots;
  std::int64_t block_bytes = 0;
  const auto add = [&](const Program& program) {
    const Limits one = backend.limits(program.layout());
    block_bytes += one.block_bytes;
    report.states += one.slot_bytes * options.slots;
    report.weights += program.bytes_held();
    report.scratch += scratch_of(program, std::max(options.chunk, options.slots * (options.max_depth + 1)),
                                 options.slots * (options.max_depth + 1));
  };
  add(model.target);
  for (const Program* network : drafter_networks(model)) add(*network);
  if (model.vision) {
    const images::Settings& settings = model.vision->settings;
    const std::int64_t pixels = pixel_limit(settings, options.max_pixels);
    report.weights += model.vision->tower.bytes_per_step() + model.vision->merger.bytes_per_step();
    report.scratch += scratch_of(model.vision->tower, pixels / (settings.patch * settings.patch), 0);
  }
  report.scratch += options.recall_bytes;
  report.context_bytes = block_bytes * options.slots / kBlockRows;
  report.key_values = block_bytes * (positions / kBlockRows);
  report.cache = options.cache_bytes;
  return report;
}

Status check_memory(const MemoryReport& needed, const DecoderOptions& options) {
  if (needed.limit <= 0 || needed.total() <= needed.limit) return {};
  const std::int64_t rest = needed.limit - (needed.total() - needed.key_values);
  const std::int64_t fits =
      needed.context_bytes > 0 ? rest / needed.context_bytes - 2 * kBlockRows : options.context;
  const std::string advice =
      fits >= kBlockRows
          ? fmt::format(
                "{} slots would fit with {} tokens each; use a smaller --context, fewer --slots or "
                "a smaller --cache-mb",
                options.slots, fits)
          : std::string("use fewer --slots, a smaller --cache-mb or a smaller model");
  return Error{
      Code::kExhausted,
      fmt::format("{} slots of {} tokens need {:.2f} GB of memory and {:.2f} GB may be used: weights "
                  "{:.2f}, keys and values {:.2f}, states {:.2f}, scratch {:.2f}, prefix cache "
                  "{:.2f}; {} (--memory-mb sets the limit)",
                  options.slots, options.context, gigabytes(needed.total()), gigabytes(needed.limit),
                  gigabytes(needed.weights), gigabytes(needed.key_values), gigabytes(needed.states),
                  gigabytes(needed.scratch), gigabytes(needed.cache), advice)};
}

Status check_prompt(std::int64_t prompt_tokens, std::int64_t context) {
  if (prompt_tokens < context) return {};
  return Error{Code::kExhausted,
               fmt::format("the prompt has {} tokens and the context holds {}; shorten it or raise --context",
                           prompt_tokens, context)};
}

}  // namespace ft
