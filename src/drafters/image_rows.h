// The embeddings of images in prompts: rows of the target's width, in the backend's memory, that replace the
// embedding of an image token, in the target and in networks that draft for it. Each slot has an area; row k
// of it belongs to the k-th image token of the slot's prompt. The decoder owns it and fills it.
#pragma once

#include <algorithm>
#include <memory>

#include "program/positions.h"

namespace ft {

/// Maximum image tokens of one prompt.
inline constexpr std::int64_t kMaxImageTokens = 16'384;

class ImageRows {
 public:
  static Result<std::unique_ptr<ImageRows>> make(Backend& backend, int width, int slots,
                                                 std::int64_t context) {
    const auto area = static_cast<int>(std::min(context, kMaxImageTokens));
    FT_ASSIGN(std::unique_ptr<RowStore> rows, backend.make_rows(width, slots * area));
    return std::unique_ptr<ImageRows>(new ImageRows(std::move(rows), area));
  }

  RowStore& store() const { return *rows_; }
  int area() const { return area_; }  // image tokens of a prompt, at most
  /// The place of token `index` of the slot's sequence; -1: it is text.
  std::int32_t place(int slot, const PositionMap& positions, std::int64_t index) const {
    const std::int64_t row = positions.image_row(index);
    return row < 0 ? -1 : static_cast<std::int32_t>(slot * std::int64_t{area_} + row);
  }

 private:
  ImageRows(std::unique_ptr<RowStore> rows, int area) : rows_(std::move(rows)), area_(area) {}

  std::unique_ptr<RowStore> rows_;
  int area_;
};

}  // namespace ft
