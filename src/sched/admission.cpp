#include "sched/admission.h"

#include <algorithm>
#include <fmt/format.h>

#include "drafters/image_rows.h"

namespace ft {
namespace {

double gigabytes(std::int64_t bytes) { return static_cast<double>(bytes) * 1e-9; }

}  // namespace

MemoryReport memory_needed(const Backend& backend, const Model& model, const DecoderOptions& asked) {
  const DecoderOptions options = Decoder::resolved(asked, backend, model);
  MemoryReport report;
  Occupancy use;
  use.slots = options.slots, use.blocks = Decoder::blocks_of(options.context, options.max_depth);
  use.logit_rows = std::int64_t{options.slots} * (options.max_depth + 1);
  use.rows = std::max<std::int64_t>(options.prefill_chunk, use.logit_rows);
  const auto add = [&](const Program& program) {
    const ProgramMemory memory = backend.memory_for(program, use);
    report.weights += memory.weights, report.key_values += memory.key_values;
    report.states += memory.states, report.scratch += memory.scratch;
  };
  for (const Program* network : drafter_networks(model)) add(*network);
  // Only the target's timelines release their windowed parts.
  use.window_blocks = TimelinePool::window_blocks(backend.limits(model.target.layout()).sliding_window_part,
                                                  std::max(options.prefill_chunk, kMaxDraftTokens + 1));
  add(model.target);
  if (model.vision) {
    report.weights += model.vision->tower.bytes_per_step() + model.vision->merger.bytes_per_step();
    report.scratch += image_bytes(backend, model, options);
  }
  report.scratch += options.recall_bytes;
  report.context_bytes = report.key_values / (use.blocks * kBlockRows);
  report.cache = options.cache_bytes;
  return report;
}

std::int64_t image_bytes(const Backend& backend, const Model& model, const DecoderOptions& options) {
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
  const auto scratch = [&](const Program& program, std::int64_t rows) {
    return backend.memory_for(program, {.rows = rows, .logit_rows = 0}).scratch;
  };
  return scratch(vision.tower, patches) + scratch(vision.merger, tokens) +
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
