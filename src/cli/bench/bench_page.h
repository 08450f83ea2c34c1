// `foretoken bench --drafters --html FILE` and `--svg FILE`: the figures of the comparison as one page or
// one picture that needs nothing else: no script, no request, light and dark as the reader's system has it.
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
