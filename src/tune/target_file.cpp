#include "tune/target_file.h"

#include <algorithm>
#include <vector>

#include "backends/weight_rows.h"
#include "format/writer.h"
#include "tune/shard.h"

namespace ft::tune {
namespace {

constexpr std::int64_t kRowsAtOnce = 256;

Status write_matrix(format::SafetensorsWriter& writer, const char* name, const Weight& weight) {
  std::vector<float> values;
  std::vector<std::uint16_t> halves;
  for (std::int64_t first = 0; first < weight.rows; first += kRowsAtOnce) {
    const std::int64_t rows = std::min(kRowsAtOnce, weight.rows - first);
    values.resize(static_cast<std::size_t>(rows * weight.cols));
    read_rows(weight, first, rows, values.data());
    halves.resize(values.size());
    std::ranges::transform(values, halves.begin(), finite_half);
    FT_TRY(writer.write(name, std::as_bytes(std::span(halves)),
                        static_cast<std::uint64_t>(first * weight.cols) * sizeof(std::uint16_t)));
  }
  return {};
}

std::vector<format::TensorSpec> matrices_of(const Model& model) {
  std::vector<format::TensorSpec> specs = {
      {"embedding", format::DType::kF16, {model.embedding.rows, model.embedding.cols}}};
  if (!model.facts.tied)
    specs.push_back({"lm_head", format::DType::kF16, {model.lm_head.rows, model.lm_head.cols}});
  return specs;
}

}  // namespace

const Logits* target_logits(const Program& target) {
  for (const Instruction& instruction : target.instructions()) {
    const auto* logits = std::get_if<Logits>(&instruction);
    if (logits != nullptr && logits->tokens().empty()) return logits;
  }
  return nullptr;
}

std::int64_t target_file_bytes(const Model& model) {
  std::int64_t bytes = 0;
  for (const format::TensorSpec& spec : matrices_of(model)) bytes += 2 * spec.shape[0] * spec.shape[1];
  return bytes;
}

Status write_target_file(const std::string& path, const Model& model) {
  FT_ASSIGN(format::SafetensorsWriter writer,
            format::SafetensorsWriter::create(path, matrices_of(model), {{"format", "foretoken target 1"}}));
  FT_TRY(write_matrix(writer, "embedding", model.embedding));
  if (!model.facts.tied) FT_TRY(write_matrix(writer, "lm_head", model.lm_head));
  return writer.finish();
}

}  // namespace ft::tune
