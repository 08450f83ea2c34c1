// `foretoken bench --drafters --html FILE` and `--svg FILE`: the figures of the comparison as one page or
// one picture. Both are self-contained: no script and no request; light or dark follows the reader's system.
#pragma once

#include <string>
#include <vector>

#include "cli/bench/bench_drafters.h"
#include "lab/bench_rounds.h"

namespace ft::cli {

struct BenchPage {
  DrafterTable table;
  std::vector<RoundCosts> costs;
};

std::string bench_page(const BenchPage& page);
std::string bench_picture(const BenchPage& page);

}  // namespace ft::cli
