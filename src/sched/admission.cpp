#include "sched/admission.h"

#include <algorithm>
#include <fmt/format.h>

#include "drafters/image_rows.h"

namespace ft {
namespace {

std::int64_t positions_of(std::int64_t context, int max_depth) {
  return Decoder::blocks_of(context, max_depth) * std::int64_t{kBlockRows};
}

/// Upper bound of the activation rows: every row of the list at its full width. A backend's plan overlays
/// them and needs about half.
std::int64_t scratch_of(const Program& program, std::int64_t rows, std::int64_t logit_rows) {
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
    report.scratch +=
        scratch_of(program, std::max(options.prefill_chunk, options.slots * (options.max_depth + 1)),
                   options.slots * (options.max_depth + 1));
  };
  add(model.target);
  // The windowed part of a slot has a constant size, so it counts as state and not with the context.
  const SlidingWindowPart windows = backend.limits(model.target.layout()).sliding_window_part;
  const int held =
      std::min(Decoder::blocks_of(options.context, options.max_depth),
               TimelinePool::window_blocks(windows, std::max(options.prefill_chunk, kMaxDraftTokens + 1)));
  block_bytes -= windows.block_bytes;
  report.states += windows.block_bytes * held * options.slots;
  for (const Program* network : drafter_networks(model)) add(*network);
  if (model.vision) {
    report.weights += model.vision->tower.bytes_per_step() + model.vision->merger.bytes_per_step();
    report.scratch += image_bytes(model, options);
  }
  report.scratch += options.recall_bytes;
  report.context_bytes = block_bytes * options.slots / kBlockRows;
  report.key_values = block_bytes * (positions / kBlockRows);
  report.cache = options.cache_bytes;
  return report;
}

std::int64_t image_bytes(const Model& model, const DecoderOptions& options) {
  if (!model.vision) return 0;
  const VisionModel& vision = *model.vision;
  const images::Settings& settings = vision.settings;
  const std::int64_t patches =
      tower_pixels(settings, options.max_pixels) / (std::int64_t{settings.patch} * settings.patch);
  const std::int64_t tokens = patches / (std::int64_t{settings.merge} * settings.merge);
  constexpr std::int64_t kRowsOfWidth = 4;  // hidden, joined, the copy between them, float16 keys and values
  const std::int64_t floats = patches * (vision.patch_width() + kRowsOfWidth * vision.width) +
                              std::int64_t{model.facts.width} * options.slots *
                                  std::min<std::int64_t>(options.context, kMaxImageTokens);
  return scratch_of(vision.tower, patches, 0) + scratch_of(vision.merger, tokens, 0) +
         floats * static_cast<std::int64_t>(sizeof(float));
}

Status check_memory(const MemoryReport& needed, const DecoderOptions& options) {
  if (needed.limit <= 0 || needed.total() <= needed.limit) return {};
  const std::int64_t rest = needed.limit - (needed.total() - needed.key_values);
  const std::int64_t fits =
      needed.context_bytes > 0 ? rest / needed.context_bytes - 2 * kBlockRows : options.context;
  const std::string beside =
      needed.total() - needed.weights <= needed.limit
          ? ", or --packed-weights auto, with which the cpu backend reads weights that "
            "do not fit from the disk"
          : "";
  const std::string advice =
      fits >= kBlockRows
          ? fmt::format(
                "{} slots would fit with {} tokens each; use a smaller --context, fewer --slots or "
                "a smaller --cache-mb",
                options.slots, fits)
          : std::string("use fewer --slots, a smaller --cache-mb or a smaller model") + beside;
  return Error{
      Code::kExhausted,
      fmt::format("{} slots of {} tokens need {:.2f} GB of memory, but {:.2f} GB may be used: weights "
                  "{:.2f}, keys and values {:.2f}, states {:.2f}, scratch {:.2f}, prefix cache "
                  "{:.2f}; {} (--memory-mb sets the limit)",
                  options.slots, options.context, gigabytes(needed.total()), gigabytes(needed.limit),
                  gigabytes(needed.weights), gigabytes(needed.key_values), gigabytes(needed.states),
                  gigabytes(needed.scratch), gigabytes(needed.cache), advice)};
}

std::string page_cache_warning(const MemoryReport& needed, std::int64_t token_bytes) {
  const std::int64_t room = std::max<std::int64_t>(0, needed.limit - (needed.total() - needed.weights));
  const double missing = 1 - static_cast<double>(room) / static_cast<double>(needed.weights);
  return fmt::format(
      "the weights have {:.2f} GB but only {:.2f} GB of memory are free, so they stay in the page cache: "
      "each token reads {:.2f} GB, about {:.2f} GB of it from disk; use a model with fewer bits to avoid "
      "that",
      gigabytes(needed.weights), gigabytes(room), gigabytes(token_bytes), missing * gigabytes(token_bytes));
}

}  // namespace ft
