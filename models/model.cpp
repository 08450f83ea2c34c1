#include "models/model.h"

#include <filesystem>
#include <fmt/format.h>

#include "format/out_of_memory.h"
#include "models/qwen3_5.h"

namespace ft {

std::string_view head_state_name(HeadReport::State state) {
  switch (state) {
    case HeadReport::State::kReady:
      return "ready";
    case HeadReport::State::kMended:
      return "mended";
    case HeadReport::State::kNone:
      return "none";
    case HeadReport::State::kMissing:
      return "missing";
    case HeadReport::State::kIncomplete:
      return "incomplete";
    case HeadReport::State::kZeroed:
      return "zeroed";
    case HeadReport::State::kWrongShape:
      return "wrong shape";
    case HeadReport::State::kNoMemory:
      return "no memory";
  }
  return "none";
}

namespace {

Result<Model> load(const std::string& directory, const LoadOptions& options) {
  std::filesystem::path path = std::filesystem::path(directory).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  FT_ASSIGN(format::ModelConfig config, format::ModelConfig::read(directory));
  FT_ASSIGN(format::Checkpoint checkpoint, format::Checkpoint::open(directory));
  FT_ASSIGN(Model model,
            make_model(path.filename().string(), std::move(config), std::move(checkpoint), options));
  model.directory = directory;
  return model;
}

}  // namespace

Result<Model> make_model(const std::string& name, format::ModelConfig config, format::Checkpoint checkpoint,
                         const LoadOptions& options) {
  Model model;
  model.name = name;
  model.directory = checkpoint.directory();
  model.family = "qwen3_5";  // the only one that ModelConfig reads; it refuses others by name
  model.config = std::move(config);
  model.checkpoint = std::make_unique<format::Checkpoint>(std::move(checkpoint));
  FT_TRY(build_qwen3_5(model, options));
  return model;
}

Result<Model> load_model(const std::string& directory, const LoadOptions& options) {
  return format::with_memory_guard("load the model", directory, [&] { return load(directory, options); });
}

std::string draft_vocabulary_text(const Model& model) {
  if (!model.mtp) return "";
  std::string text =
      model.draft_vocabulary == model.config.vocab_size
          ? fmt::format("all {} tokens", model.draft_vocabulary)
          : fmt::format("{} of {} tokens at a time", model.draft_vocabulary, model.config.vocab_size);
  if (model.draft_bits > 0) text += fmt::format(", in {} bits", model.draft_bits);
  return text;
}

std::int64_t state_bytes(const Program& program, std::int64_t context, int kv_bits) {
  const std::int64_t blocks = (context + kBlockRows - 1) / kBlockRows;
  std::int64_t floats = 0;
  std::int64_t cached = 0;
  for (const auto& cache : program.layout().caches) {
    cached += 2 * blocks * kBlockRows * cache.kv_heads * kv_row_bytes(cache.head_dim, kv_bits);
  }
  for (const auto& delta : program.layout().deltas) {
    const std::int64_t width = static_cast<std::int64_t>(delta.value_heads) * delta.value_dim;
    const std::int64_t keys = static_cast<std::int64_t>(delta.key_heads) * delta.key_dim;
    floats += width * delta.key_dim + 2 * kMaxTapeRows * (width + keys + delta.value_heads);
  }
  for (const auto& window : program.layout().windows) floats += std::int64_t{kRing} * window.width;
  return floats * std::int64_t{4} + cached;
}

}  // namespace ft
