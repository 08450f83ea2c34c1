// Quantiles of measured figures.
#pragma once

#include <vector>

namespace ft {

/// The quantile at `share` of the sorted values, interpolated. 0 for an empty list.
double quantile(std::vector<double> values, double share);

}  // namespace ft
