// The vision tower of a model: patches of one picture to the rows that enter the target in place of
// embeddings of tokens. Two programs run one after the other: the tower over all patches, whose rows see each
// other, and the merger, which joins the patches of a token.
// Owner: the decoder. Thread: the engine thread. Cost: one pass of the tower, in one step; encode() returns
// when it is done. Memory: keys and values of one layer, activations of the largest picture. Errors: make
// returns compile's; encode() rethrows errors of its step.
#pragma once

#include <memory>
#include <vector>

#include "images/picture.h"
#include "models/vision.h"
#include "program/backend.h"

namespace ft {

class ImageEncoder {
 public:
  /// For pictures that are resized to at most `max_pixels`. `model` must outlive the encoder.
  static Result<std::unique_ptr<ImageEncoder>> make(Backend& backend, const VisionModel& model,
                                                    std::int64_t max_pixels);
  /// Fills rows [first, first + picture.tokens()) of `out`, a store of the target's width.
  void encode(const images::Picture& picture, RowStore& out, std::int32_t first);

  std::int64_t max_pixels() const { return max_pixels_; }
  std::int64_t packed_bytes() const { return tower_->packed_bytes() + merger_->packed_bytes(); }

 private:
  ImageEncoder(const VisionModel& model, std::int64_t max_pixels) : model_(model), max_pixels_(max_pixels) {}
  Status build(Backend& backend);
  void write_patches(const images::Picture& picture);
  void run(Executable& program, State& state, RowStore& in, RowStore& out, int rows, std::int32_t first);

  const VisionModel& model_;
  std::int64_t max_pixels_;
  std::unique_ptr<Executable> tower_, merger_;
  std::unique_ptr<State> tower_state_, merger_state_;
  std::unique_ptr<RowStore> patches_, hidden_, joined_;
  std::vector<std::int32_t> blocks_, sources_, targets_;
  std::vector<Coordinates> coordinates_;
};

/// Maximum pixels of a resized picture under a limit that the user gave (0: the default).
std::int64_t pixel_limit(const images::Settings& settings, std::int64_t asked);
/// The pixels that the tower must accept for such a limit: images::largest_pixels().
std::int64_t tower_pixels(const images::Settings& settings, std::int64_t asked);

}  // namespace ft
