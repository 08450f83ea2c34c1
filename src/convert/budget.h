// Chooses the matrices that get more bits: each has several widths, and a harm that was measured at one of
// them. The harm of a width is assumed to grow with the square of its error, and harms to add up, which holds
// while they are small (the linearity theorem of HIGGS, arXiv 2411.17525). Bytes are spent where they lower
// the sum most.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "format/quantisation.h"

namespace ft::convert {

struct Width {
  format::Quantisation q;
  std::uint64_t bytes = 0;
  double error = 0;  // relative, of the weights
};

struct BitCandidate {
  std::vector<Width> widths;  // ascending by bytes, at least one
  double harm = 0;            // for an error of 1
};

/// The chosen width of each. If the budget is too small even for the narrowest widths, all get those.
std::vector<std::size_t> spend(std::span<const BitCandidate> candidates, std::uint64_t budget_bytes);

}  // namespace ft::convert
