#include "models/qwen3_5/norms.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "format/out_of_memory.h"

namespace ft::qwen3_5 {
namespace {

using format::Checkpoint;
using format::in_quotes;
using format::TensorView;
using format::WeightIndex;

enum class Vote { kShifted, kRaw, kNone };

struct Witness {
  const char* name;
  Vote evidence;
  std::string saw;
};

// Raw norms cluster around 0, final norms around 1.
constexpr double kBetweenRawAndShifted = 0.5;

Witness check_conv(const Checkpoint& checkpoint) {
  std::size_t mlx = 0;
  std::size_t hf = 0;
  for (const TensorView& tensor : checkpoint.tensors()) {
    if (!tensor.name.ends_with("linear_attn.conv1d.weight") || tensor.shape.size() != 3) continue;
    (tensor.shape[2] == 1 ? mlx : hf) += 1;
  }
  Witness sign{"last side of conv1d", Vote::kNone, "no [C,1,K] or [C,K,1] tensor"};
  if (mlx + hf == 0) return sign;
  sign.saw = std::to_string(mlx) + " tensors [C,K,1], " + std::to_string(hf) + " tensors [C,1,K]";
  if (mlx == 0) sign.evidence = Vote::kRaw;
  if (hf == 0) sign.evidence = Vote::kShifted;
  return sign;
}

Witness check_metadata(const Checkpoint& checkpoint) {
  const std::string& format = checkpoint.metadata_format();
  Vote evidence = Vote::kNone;
  if (format == "mlx") evidence = Vote::kShifted;
  if (format == "pt") evidence = Vote::kRaw;
  return {"metadata format", evidence, format.empty() ? "none" : in_quotes(format)};
}

Witness check_prefix(const Checkpoint& checkpoint) {
  bool raw = false;
  bool shifted = false;
  for (const TensorView& tensor : checkpoint.tensors()) {
    raw = raw || tensor.name.starts_with("model.language_model.");
    shifted = shifted || tensor.name.starts_with("language_model.model.");
  }
  Witness sign{"name prefix", Vote::kNone, "neither or both"};
  if (raw && !shifted) sign = {"name prefix", Vote::kRaw, "'model.language_model.'"};
  if (shifted && !raw) sign = {"name prefix", Vote::kShifted, "'language_model.model.'"};
  return sign;
}

Witness check_mean(std::optional<double> mean) {
  if (!mean) return {"mean of the input norms", Vote::kNone, "no float tensor"};
  return {"mean of the input norms", *mean < kBetweenRawAndShifted ? Vote::kRaw : Vote::kShifted,
          std::to_string(*mean)};
}

std::optional<double> mean_of_input_norms(const WeightIndex& index, std::string_view prefix, int layers) {
  double sum = 0;
  std::size_t count = 0;
  for (int layer = 0; layer < layers; ++layer) {
    const std::string name = std::string(prefix) + std::to_string(layer) + ".input_layernorm.weight";
    const TensorView* norm = index.find(name);
    if (norm == nullptr || !format::dtype_is_float(norm->dtype)) continue;
    // Zeros say nothing: `inspect --remote` reads the norms of a few layers; the rest of a file is zeros.
    if (std::ranges::all_of(norm->bytes, [](std::byte byte) { return byte == std::byte{0}; })) continue;
    const std::size_t size = norm->bytes.size() / format::dtype_bytes(norm->dtype);
    for (std::size_t i = 0; i < size; ++i) sum += format::load_float(norm->bytes.data(), norm->dtype, i);
    count += size;
  }
  if (count == 0 || !std::isfinite(sum)) return std::nullopt;
  return sum / static_cast<double>(count);
}

Result<bool> count_evidence(WeightIndex& index, const Config& config) {
  const Checkpoint& checkpoint = index.checkpoint();
  const std::vector<Witness> signs = {check_conv(checkpoint), check_metadata(checkpoint),
                                      check_prefix(checkpoint),
                                      check_mean(mean_of_input_norms(index, "layers.", config.num_layers))};
  int shifted = 0;
  int raw = 0;
  std::string evidence;
  for (const Witness& sign : signs) {
    shifted += sign.evidence == Vote::kShifted ? 1 : 0;
    raw += sign.evidence == Vote::kRaw ? 1 : 0;
    const char* says = sign.evidence == Vote::kNone  ? "says nothing"
                       : sign.evidence == Vote::kRaw ? "says raw"
                                                     : "says shifted";
    evidence += (evidence.empty() ? "" : "; ") + std::string(sign.name) + " " + says + " (" + sign.saw + ")";
  }
  if (shifted > 0 && raw > 0 && std::abs(shifted - raw) >= 2) {
    index.warn(checkpoint.directory() + ": the evidence for how norms are stored differs: " + evidence +
               "; using the majority");
  }
  if (shifted >= raw + 2) return true;
  if (raw >= shifted + 2) return false;
  return Error{Code::kCorrupt,
               checkpoint.directory() +
                   ": expected a lead of two signs on whether 1 must be added to the norms, found: " +
                   evidence + "; convert the model again from its source"};
}

Result<bool> check_mtp_norms(WeightIndex& index, const Config& config) {
  const Checkpoint& checkpoint = index.checkpoint();
  bool shifted = true;
  std::string source = "no norm encoding is given for the sidecar";
  if (!config.mtp.norm_encoding.empty()) {
    shifted = !config.mtp.norms_are_delta();
    source = "the norm encoding is " + in_quotes(config.mtp.norm_encoding);
  } else if (!checkpoint.mtp_is_sidecar()) {
    FT_ASSIGN(shifted, count_evidence(index, config));
    source = "the target's norms are stored this way";
  }
  const std::optional<double> mean =
      mean_of_input_norms(index, "mtp.layers.", std::max(1, config.mtp.layers));
  if (!mean) return shifted;
  // The check works in one direction: raw norms may have any mean, but final norms hardly have a mean near
  // zero.
  if (!shifted || std::fabs(*mean) >= kBetweenRawAndShifted) return shifted;
  index.warn(checkpoint.directory() + ": MTP head: " + source +
             ", which means final norms, but the mean of its input norm is " + std::to_string(*mean) +
             "; they are taken as raw");
  return false;
}

}  // namespace

Result<bool> norms_are_shifted(WeightIndex& index, const Config& config) {
  return format::with_memory_guard("check the norms", index.checkpoint().directory(),
                                   [&] { return count_evidence(index, config); });
}

Result<bool> mtp_norms_are_shifted(WeightIndex& index, const Config& config) {
  return format::with_memory_guard("check the norms of the MTP head", index.checkpoint().directory(),
                                   [&] { return check_mtp_norms(index, config); });
}

}  // namespace ft::qwen3_5
