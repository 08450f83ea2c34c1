#include "backends/metal/device_check.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <fmt/format.h>

#include "backends/metal/executable.h"
#include "backends/test_programs.h"
#include "backends/test_timeline.h"

namespace ft::metal {
namespace {

constexpr int kTokens = 18;

Error failed(const Device& device, const std::string& what) {
  return {
      Code::kUnsupported,
      fmt::format("metal backend: {} fails the self-test: {}; use --backend cpu and send `foretoken doctor "
                  "--json` to the project",
                  device.describe(), what)};
}

/// Logits of every position by steps of `chunk` rows, of which all but the first are drafts that are kept.
Result<std::vector<float>> logits_by(const std::shared_ptr<Device>& device, const Program& program,
                                     int chunk) {
  FT_ASSIGN(const std::unique_ptr<Executable> executable,
            compile(device, program, {.max_rows = kTokens, .max_logit_rows = kTokens}));
  FT_ASSIGN(const std::unique_ptr<State> state,
            MetalState::make(device, program.layout(), {.slots = 1, .blocks = 1}));
  TestTimeline timeline(*executable, *state, {0}, 0);
  std::vector<float> all;
  for (int at = 0; at < kTokens; at += chunk) {
    const int rows = std::min(chunk, kTokens - at), drafts = std::min(rows - 1, kMaxTapeRows);
    std::vector<std::int32_t> tokens;
    for (int i = at; i < at + rows; ++i) tokens.push_back(i * 31 % executable->vocabulary());
    const std::vector<float> logits = timeline.step(tokens, rows - drafts);
    timeline.keep(rows - drafts, drafts);
    all.insert(all.end(), logits.begin(), logits.end());
  }
  return all;
}

Status compare(const std::shared_ptr<Device>& device) {
  const TestProgram test(TestShape::odd(), 1);
  FT_ASSIGN(const std::vector<float> whole, logits_by(device, test.program, kTokens));
  FT_ASSIGN(const std::vector<float> expected, logits_by(open_twin_device(), test.program, kTokens));
  double squares = 0, errors = 0;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    squares += expected[i] * static_cast<double>(expected[i]);
    errors += std::pow(whole[i] - static_cast<double>(expected[i]), 2);
  }
  constexpr double kTolerance = 2e-2;  // keys and values are float16, and two layers amplify
  const double difference = std::sqrt(errors / squares);
  if (!(difference < kTolerance))
    return failed(*device,
                  fmt::format("its results differ by {:.2g} from the same kernels as C++", difference));
  for (const int chunk : {1, 2, 3, 8}) {
    FT_ASSIGN(const std::vector<float> again, logits_by(device, test.program, chunk));
    if (again == whole) continue;
    return failed(*device, fmt::format("a row has other bits among {} rows than among {}", chunk, kTokens));
  }
  return {};
}

}  // namespace

Status self_test(const std::shared_ptr<Device>& device) {
  try {
    return compare(device);
  } catch (const std::exception& error) {
    return failed(*device, error.what());
  }
}

}  // namespace ft::metal
