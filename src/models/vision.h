// VisionModel: the vision tower of a model, as two programs, and its requirements for a picture. An input row
// of the tower is a patch's values next to the learned vector of its place; each row sees all rows of its
// picture. The merger joins the rows of a token's patches side by side and returns a row of the target's
// width. Source: transformers' Qwen3VLVisionModel.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "images/picture.h"
#include "program/program.h"

namespace ft {

struct VisionModel {
  Program tower;   // [patches, patch_width()] to captured rows [patches, width]
  Program merger;  // [tokens, merge^2 * width] to captured rows [tokens, target's width]
  images::Settings settings;
  int width = 0;                      // of the tower's rows
  int position_side = 0;              // of the square of learned vectors
  std::vector<float> position_table;  // [position_side, position_side, width]
  std::int32_t image_token = -1;      // in a prompt, once for each row of an image

  int patch_width() const { return settings.patch_floats() + width; }

  struct Place {
    int row = 0, column = 0;    // of the patch
    int rows = 0, columns = 0;  // of the picture
  };
  /// The learned vector of a place: the table stretched over the picture, bilinear. out [width].
  void position(const Place& place, std::span<float> out) const;
};

}  // namespace ft
