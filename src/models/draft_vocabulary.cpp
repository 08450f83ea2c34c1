#include "models/draft_vocabulary.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

namespace ft {
namespace {

using format::DType;
using format::TensorView;

constexpr const char* kAgain = "; the drafter is damaged or of another target: download it again";

/// Element i of whole numbers.
std::int64_t whole_at(const TensorView& tensor, std::size_t i) {
  if (tensor.dtype == DType::kI32) {
    std::int32_t value = 0;
    std::memcpy(&value, tensor.bytes.data() + i * sizeof(value), sizeof(value));
    return value;
  }
  std::int64_t value = 0;
  std::memcpy(&value, tensor.bytes.data() + i * sizeof(value), sizeof(value));
  return value;
}

Error wrong(const TensorView& tensor, const std::string& what) {
  return Error{Code::kCorrupt, fmt::format("{}: tensor {}: {}{}", tensor.file, tensor.name, what, kAgain)};
}

/// `t2d` marks the tokens that can be drafted.
Status compare(const TensorView& t2d, const std::vector<std::int32_t>& labels, int vocabulary) {
  const bool bytes = t2d.dtype == DType::kBool || t2d.dtype == DType::kU8 || t2d.dtype == DType::kI8;
  if (!bytes || t2d.bytes.size() != static_cast<std::size_t>(vocabulary))
    return wrong(t2d, fmt::format("expected {} bytes, one for each token of the target", vocabulary));
  const auto marked = std::ranges::count_if(t2d.bytes, [](std::byte byte) { return byte != std::byte{0}; });
  const auto outside = std::ranges::find_if(
      labels, [&](std::int32_t token) { return t2d.bytes[static_cast<std::size_t>(token)] == std::byte{0}; });
  if (outside != labels.end())
    return wrong(t2d, fmt::format("it does not list token {}, which d2t maps to", *outside));
  if (marked != std::ssize(labels))
    return wrong(t2d, fmt::format("it lists {} tokens and d2t maps to {}", marked, labels.size()));
  return {};
}

}  // namespace

Result<std::vector<std::int32_t>> read_labels(const format::WeightIndex& index, int draft_vocabulary,
                                              int vocabulary) {
  const TensorView* d2t = index.find("d2t");
  if (d2t == nullptr && draft_vocabulary == vocabulary) return std::vector<std::int32_t>();
  if (d2t == nullptr) {
    return Error{
        Code::kNotFound,
        fmt::format("{}: no tensor d2t maps its {} draft tokens to the {} of the target; the file is "
                    "incomplete: download it again",
                    index.checkpoint().directory(), draft_vocabulary, vocabulary)};
  }
  const auto count = static_cast<std::size_t>(draft_vocabulary);
  if ((d2t->dtype != DType::kI64 && d2t->dtype != DType::kI32) ||
      d2t->bytes.size() != count * format::dtype_bytes(d2t->dtype)) {
    return wrong(*d2t, fmt::format("expected {} whole numbers (draft_vocab_size)", count));
  }
  std::vector<std::int32_t> labels(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t offset = whole_at(*d2t, i);
    const bool fits = offset > -vocabulary && offset < vocabulary;
    const std::int64_t token = fits ? static_cast<std::int64_t>(i) + offset : -1;
    if (token < 0 || token >= vocabulary)
      return wrong(*d2t,
                   fmt::format("draft token {} maps outside the target's vocabulary of {}", i, vocabulary));
    if (i > 0 && token <= labels[i - 1])
      return wrong(*d2t, fmt::format("draft token {} maps to {}, not beyond the one before it", i, token));
    labels[i] = static_cast<std::int32_t>(token);
  }
  if (const TensorView* t2d = index.find("t2d")) FT_TRY(compare(*t2d, labels, vocabulary));
  return labels;
}

}  // namespace ft
