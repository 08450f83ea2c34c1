#include "models/weight_source.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>
#include <vector>

namespace ft {
namespace {

Format plain_format(format::DType dtype) {
  switch (dtype) {
    case format::DType::kF16:
      return Format::kF16;
    case format::DType::kBF16:
      return Format::kBf16;
    case format::DType::kF8E8M0:
      return Format::kE8m0;
    case format::DType::kF8E4M3:
      return Format::kE4m3;
    default:
      return Format::kF32;
  }
}

Format quantised_format(format::QuantMode mode) {
  switch (mode) {
    case format::QuantMode::kAffine:
      return Format::kAffine;
    case format::QuantMode::kMxfp4:
      return Format::kMxfp4;
    case format::QuantMode::kMxfp8:
      return Format::kMxfp8;
    case format::QuantMode::kNvfp4:
      return Format::kNvfp4;
  }
  return Format::kAffine;
}

Weight to_weight(const format::StoredMatrix& stored) {
  Weight weight;
  weight.name = stored.name;
  weight.format = stored.quantised ? quantised_format(stored.mode) : plain_format(stored.dtype);
  weight.rows = stored.rows;
  weight.cols = stored.cols;
  weight.data = stored.data;
  if (stored.quantised) {
    weight.bits = stored.bits;
    weight.group = stored.group;
    weight.scales = stored.scales;
    weight.biases = stored.biases;
    weight.scale_format = plain_format(stored.scale_dtype);
  }
  return weight;
}

/// Canonical names of the index end in ".weight", except the two parameters that are not weights of a module.
std::string stored_name(const std::string& name) {
  const bool bare = name.ends_with("A_log") || name.ends_with("dt_bias");
  return bare ? name : name + ".weight";
}

}  // namespace

WeightSource::WeightSource(format::WeightIndex index) : index_(std::move(index)) {}

Result<WeightSource> WeightSource::open(const format::Checkpoint& checkpoint,
                                        const format::ModelConfig& config) {
  WeightSource source(format::WeightIndex(checkpoint, config));
  FT_ASSIGN(const bool shifted, source.index_.norms_are_shifted());
  source.target_offset_ = shifted ? 0.0F : 1.0F;
  return source;
}

bool WeightSource::has(const std::string& name) const { return index_.has(stored_name(name)); }

Result<std::string> WeightSource::settle_head_norms() {
  const std::size_t before = index_.warnings().size();
  FT_ASSIGN(const bool shifted, index_.mtp_norms_are_shifted());
  head_offset_ = shifted ? 0.0F : 1.0F;
  return index_.warnings().size() > before ? index_.warnings().back() : std::string();
}

Weight WeightSource::keep(Result<format::StoredMatrix> stored, std::int64_t rows, std::int64_t cols) {
  if (!stored.ok()) {
    if (status_.ok()) status_ = stored.error();
    Weight absent;  // of the shape that was asked for, so that the program stays well formed until status()
                    // is read
    absent.rows = rows;
    absent.cols = cols;
    return absent;
  }
  Weight weight = to_weight(*stored);
  if (!counted_.insert(weight.name).second) return weight;
  const std::string words = weight.format == Format::kAffine
                                ? fmt::format("{}-bit group {}", weight.bits, weight.group)
                                : std::string(format_name(weight.format));
  if (weight.rows > 1) formats_[words] += weight.rows * weight.cols;
  parameters_ += weight.rows * weight.cols;
  return weight;
}

Weight WeightSource::matrix(const std::string& name, std::int64_t rows, std::int64_t cols) {
  return keep(index_.matrix(stored_name(name), rows, cols), rows, cols);
}

Weight WeightSource::vector(const std::string& name, std::int64_t size) {
  return keep(index_.vector(stored_name(name), size), 1, size);
}

Weight WeightSource::norm(const std::string& name, std::int64_t size) {
  Weight weight = vector(name, size);
  weight.offset = name.starts_with("mtp.") ? head_offset_ : target_offset_;
  return weight;
}

Status WeightSource::status() { return std::exchange(status_, Status()); }

std::string WeightSource::summary() const {
  std::vector<std::pair<std::int64_t, std::string>> parts;
  for (const auto& [words, parameters] : formats_) parts.emplace_back(-parameters, words);
  std::sort(parts.begin(), parts.end());
  std::string text;
  for (const auto& [parameters, words] : parts) {
    text += fmt::format("{}{} {:.1f}%", text.empty() ? "" : ", ", words,
                        -100.0 * static_cast<double>(parameters) / static_cast<double>(parameters_));
  }
  return text;
}

}  // namespace ft
