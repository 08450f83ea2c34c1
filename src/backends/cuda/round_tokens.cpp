#include "backends/cuda/round_tokens.h"

#include "base/assert.h"
#include "base/clock.h"

namespace ft::cuda {
namespace {

constexpr int kMaxTokens = 1 << 14;  // 64 slots with 16 drafts have 1,024

}  // namespace

Result<std::shared_ptr<RoundTokens>> RoundTokens::make(std::shared_ptr<Device> device) {
  std::shared_ptr<RoundTokens> round(new RoundTokens(std::move(device)));
  round->tokens_ = Memory(round->device_, kMaxTokens * sizeof(int));
  round->mirror_ = HostMemory(round->device_, kMaxTokens * sizeof(int));
  if (round->tokens_.empty() || round->mirror_.empty())
    return no_memory(*round->device_, "tokens of a round", kMaxTokens * sizeof(int), "use --backend cpu");
  round->expected_.reserve(kMaxTokens);
  return round;
}

void RoundTokens::expect(std::span<std::int32_t> buffer, std::int32_t place) {
  FT_ASSERT(place < kMaxTokens);
  expected_.push_back({&buffer[static_cast<std::size_t>(place)], place});
}

void RoundTokens::set(std::span<std::int32_t> buffer, std::int32_t place, std::int32_t token) {
  FT_ASSERT(place < kMaxTokens);
  buffer[static_cast<std::size_t>(place)] = mirror()[place] = token;
  device_->copy_in(device() + place, mirror() + place, sizeof(int));
}

std::int64_t RoundTokens::collect() {
  const std::int64_t begin_ns = steady_ns();
  device_->wait();
  const std::int64_t waited_ns = steady_ns() - begin_ns;
  for (const Expected& one : expected_) *one.to = mirror()[one.place];
  expected_.clear();
  return waited_ns;
}

}  // namespace ft::cuda
