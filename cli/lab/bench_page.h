// `foretoken bench --drafters --html FILE`: the figures of the comparison drawn as one page that needs
// nothing else: no script, no request, light and dark as the reader's system has it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cli/lab/bench_drafters.h"

namespace ft::cli {

/// What a round of one slot costs, in milliseconds by its rows, at one length of the context.
struct RoundCosts {
  std::int64_t context = 0;  // tokens
  std::vector<double> ms;    // [rows - 1]
};

struct BenchPage {
  DrafterTable table;
  std::vector<RoundCosts> costs;
  double limit_ms = 0;  // what reading the weights once takes at the memory's bandwidth; 0: not measured
};

std::string bench_page(const BenchPage& page);

}  // namespace ft::cli
