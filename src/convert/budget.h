// Which matrices get more bits: each has a choice of widths, and a harm that was measured at one of them. The
// harm of a width is taken to grow with the square of its error, and harms to add up, as they do while they
// are small (the linearity theorem of HIGGS, arXiv 2411.17525). Bytes are spent where they lower the sum
// most.
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

/// The chosen width of each. All get the narrowest one if the budget does not hold even that.
std::vector<std::size_t> spend(std::span<const BitCandidate> candidates, std::uint64_t budget_bytes);

}  // namespace ft::convert
