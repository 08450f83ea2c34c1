#include "models/synthetic/shapes.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/assert.h"
#include "models/family.h"

namespace ft {

std::vector<std::string> shape_names() {
  std::vector<std::string> names;
  for (const Family* family : families()) {
    for (const Shape& shape : family->synthetic->shapes) names.emplace_back(shape.name);
  }
  return names;
}

Result<Shape> find_shape(std::string_view name) {
  for (const Family* family : families()) {
    for (const Shape& shape : family->synthetic->shapes) {
      if (shape.name == name) return shape;
    }
  }
  return Error{Code::kInvalid,
               fmt::format("expected one of {}, found '{}'", fmt::join(shape_names(), ", "), name)};
}

const SyntheticModels& models_of(const Shape& shape) {
  for (const Family* family : families()) {
    if (std::ranges::find(family->synthetic->shapes, shape.name, &Shape::name) !=
        family->synthetic->shapes.end())
      return *family->synthetic;
  }
  FT_ASSERT(false);
  return *families().front()->synthetic;
}

bool has_head(const Shape& shape) { return models_of(shape).head != nullptr; }

std::vector<SynthTensor> target_tensors(const Shape& shape) { return models_of(shape).target(shape); }

std::vector<SynthTensor> head_tensors(const Shape& shape) { return models_of(shape).head(shape); }

}  // namespace ft
