// Any bytes as a calibration file, and as one with a right checksum, give an Error with a sentence or
// plausible costs. A cost model accepts such costs unchanged.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fmt/format.h>
#include <span>
#include <string>

#include "base/checksum.h"
#include "sched/calibration/calibration_cache.h"

namespace {

const std::string kKey(ft::kFingerprintDigits, 'f');
constexpr std::int64_t kNow = 1'800'000'000;

void read(const std::string& text) {
  const ft::Result<ft::RememberedCosts> costs = ft::read_calibration(text, kKey, kNow);
  if (!costs.ok()) {
    if (costs.error().message.empty()) std::abort();
    return;
  }
  if (!costs->figures.plausible() || !costs->workers.plausible()) std::abort();
  ft::CostModel model;
  model.restore(costs->figures);
  if (model.figures().far_from(costs->figures, 1)) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string text(reinterpret_cast<const char*>(data), size);
  read(text);
  if (const std::size_t end = text.rfind("checksum "); end != std::string::npos) text.resize(end);
  read(text + fmt::format("checksum {:016x}\n", ft::checksum(std::as_bytes(std::span(text)))));
  return 0;
}
