#include "speculation/image_encoder.h"

#include <algorithm>
#include <numeric>

#include "images/largest.h"
#include "speculation/prompt_images.h"

namespace ft {

std::int64_t pixel_limit(const images::Settings& settings, std::int64_t asked) {
  const std::int64_t most = std::min(settings.max_pixels, asked > 0 ? asked : images::kDefaultMaxPixels);
  return std::max<std::int64_t>(most, std::int64_t{settings.side()} * settings.side());
}

std::int64_t tower_pixels(const images::Settings& settings, std::int64_t asked) {
  images::Settings within = settings;
  within.max_pixels = pixel_limit(settings, asked);
  return images::largest_pixels(within);
}

std::vector<std::int32_t> content_keys(std::span<const std::int32_t> tokens,
                                       std::span<const PromptImage> images) {
  std::vector<std::int32_t> keys(tokens.begin(), tokens.end());
  for (const PromptImage& image : images) {
    const std::int64_t end = std::min(image.end(), static_cast<std::int64_t>(keys.size()));
    for (std::int64_t at = image.first; at < end; ++at)
      keys[static_cast<std::size_t>(at)] = images::content_key(*image.picture, at - image.first);
  }
  return keys;
}

Result<std::unique_ptr<ImageEncoder>> ImageEncoder::make(Backend& backend, const VisionModel& model,
                                                         std::int64_t max_pixels) {
  std::unique_ptr<ImageEncoder> encoder(new ImageEncoder(model, tower_pixels(model.settings, max_pixels)));
  FT_TRY(encoder->build(backend));
  return encoder;
}

Status ImageEncoder::build(Backend& backend) {
  const images::Settings& settings = model_.settings;
  const int each = settings.merge * settings.merge;
  const auto tokens = static_cast<int>(max_pixels_ / (std::int64_t{settings.side()} * settings.side()));
  CompileOptions tower, merger;
  tower.max_rows = tokens * each, merger.max_rows = tokens;
  FT_ASSIGN(tower_, backend.compile(model_.tower, tower));
  FT_ASSIGN(merger_, backend.compile(model_.merger, merger));
  const int blocks = (tower.max_rows + kBlockRows - 1) / kBlockRows;
  blocks_.resize(static_cast<std::size_t>(blocks));
  std::iota(blocks_.begin(), blocks_.end(), 0);
  FT_ASSIGN(tower_state_, backend.make_state(model_.tower.layout(), {1, blocks}));
  FT_ASSIGN(merger_state_, backend.make_state(model_.merger.layout(), {1, 1}));
  FT_ASSIGN(patches_, backend.make_rows(model_.patch_width(), tower.max_rows));
  FT_ASSIGN(hidden_, backend.make_rows(model_.width, tower.max_rows));
  FT_ASSIGN(joined_, backend.make_rows(each * model_.width, tokens));
  return {};
}

/// Each row: the values of a patch, then the learned vector of its place.
void ImageEncoder::write_patches(const images::Picture& picture) {
  std::vector<float> row(static_cast<std::size_t>(model_.patch_width()));
  const auto values = static_cast<std::size_t>(model_.settings.patch_floats());
  coordinates_.clear();
  for (std::int64_t i = 0; i < picture.patches(); ++i) {
    images::write_patch(picture, model_.settings, i, row.data());
    const images::Cell cell = images::cell_of(picture, i);
    model_.position({cell.row, cell.column, picture.rows, picture.columns}, std::span(row).subspan(values));
    patches_->write(static_cast<std::int32_t>(i), row);
    coordinates_.push_back({0, cell.row, cell.column});
  }
}

void ImageEncoder::run(Executable& program, State& state, RowStore& in, RowStore& out, int rows,
                       std::int32_t first) {
  sources_.resize(static_cast<std::size_t>(rows)), targets_.resize(sources_.size());
  std::iota(sources_.begin(), sources_.end(), 0);
  std::iota(targets_.begin(), targets_.end(), first);
  const Segment segment{{blocks_, 0, 0, 0}, 0, rows, rows};
  StepArgs args;
  args.hidden = {&in, sources_};
  args.segments = {&segment, 1};
  args.capture = {&out, targets_};
  args.coordinates = coordinates_;
  args.logits = false;
  program.submit(args, state);
  program.collect();
}

void ImageEncoder::encode(const images::Picture& picture, RowStore& out, std::int32_t first) {
  const auto patches = static_cast<int>(picture.patches()), tokens = static_cast<int>(picture.tokens());
  FT_ASSERT(picture.pixels.size.pixels() <= max_pixels_);
  write_patches(picture);
  run(*tower_, *tower_state_, *patches_, *hidden_, patches, 0);
  // The patches of a token are neighbours, so their rows are already side by side in memory.
  std::vector<float> rows(static_cast<std::size_t>(patches) * static_cast<std::size_t>(model_.width));
  hidden_->read(0, rows);
  joined_->write(0, rows);
  coordinates_.clear();
  run(*merger_, *merger_state_, *joined_, out, tokens, first);
}

}  // namespace ft
