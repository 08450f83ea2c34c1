#include "images/largest.h"

#include <algorithm>
#include <cmath>

namespace ft::images {

std::int64_t largest_pixels(const Settings& settings) {
  const auto token = static_cast<double>(settings.side()) * settings.side();
  const double most = static_cast<double>(settings.max_pixels) / token;
  const double least = std::min(static_cast<double>(settings.min_pixels) / token, most);
  const double strip = std::sqrt(kMaxAspect * most);
  const double grown = (std::sqrt(least * kMaxAspect) + 1) + least + std::sqrt(least);
  return static_cast<std::int64_t>(std::ceil(std::max({most, strip, grown})) * token);
}

}  // namespace ft::images
