#include "tune/target_file.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/weight_rows.h"
#include "format/writer.h"
#include "tune/shard.h"

namespace ft::tune {
namespace {

constexpr std::int64_t kRowsAtOnce = 256;
constexpr std::string_view kHeadPrefix = "mtp.";

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

/// The matrices and norms of an MTP head, without those that it shares with the target.
std::vector<const Weight*> weights_of_head(const Program& head) {
  std::vector<const Weight*> all;
  for (const Instruction& instruction : head.instructions()) {
    if (const auto* norm = std::get_if<Norm>(&instruction)) all.push_back(&norm->weight);
    if (const auto* attend = std::get_if<Attention>(&instruction))
      all.insert(all.end(), {&attend->q_norm, &attend->k_norm});
    if (const auto* linear = std::get_if<Linear>(&instruction)) {
      for (const Weight& weight : linear->weights) all.push_back(&weight);
    }
  }
  return all;
}

/// "mtp.fc.weight", without the prefixes of exporters.
std::string published_name(const Weight& weight) {
  const std::size_t at = weight.name.find(kHeadPrefix);
  std::string name = at == std::string::npos ? weight.name : weight.name.substr(at);
  return name.ends_with(".weight") ? name : name + ".weight";
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

bool head_is_usual(const Program& head) {
  int layers = 0, embedding_norm = -1, hidden_norm = -1;
  bool joined = false;
  const Logits* logits = nullptr;  // of all tokens, or of a draft vocabulary
  const Capture* fed_back = find_capture(head, "hidden");
  for (const Instruction& instruction : head.instructions()) {
    if (std::holds_alternative<Attention>(instruction)) ++layers;
    if (const auto* found = std::get_if<Logits>(&instruction)) logits = found;
    if (const auto* norm = std::get_if<Norm>(&instruction)) {
      const std::string name = published_name(norm->weight);
      if (name == "mtp.pre_fc_norm_embedding.weight") embedding_norm = norm->out.id;
      if (name == "mtp.pre_fc_norm_hidden.weight") hidden_norm = norm->out.id;
    }
    if (const auto* concat = std::get_if<Concat>(&instruction))
      joined = concat->a.id == embedding_norm && concat->b.id == hidden_norm;
  }
  return layers == 1 && joined && logits != nullptr && fed_back != nullptr &&
         fed_back->in.id == logits->in.id;
}

Status write_head_file(const std::string& path, const Program& head) {
  const std::vector<const Weight*> weights = weights_of_head(head);
  std::vector<format::TensorSpec> specs;
  for (const Weight* weight : weights) {
    std::vector<std::int64_t> shape = {weight->cols};
    if (weight->rows > 1) shape.insert(shape.begin(), weight->rows);
    specs.push_back({published_name(*weight), format::DType::kF32, std::move(shape)});
  }
  FT_ASSIGN(format::SafetensorsWriter writer,
            format::SafetensorsWriter::create(path, specs, {{"format", "foretoken head 1"}}));
  std::vector<float> values;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    values.resize(static_cast<std::size_t>(weights[i]->rows * weights[i]->cols));
    read_rows(*weights[i], 0, weights[i]->rows, values.data());
    FT_TRY(writer.write(specs[i].name, std::as_bytes(std::span(values))));
  }
  return writer.finish();
}

}  // namespace ft::tune
