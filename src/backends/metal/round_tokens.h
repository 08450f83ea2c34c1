// The round's tokens in memory that the host and the device see: steps write the drafts that they choose
// there, and later steps of the round read them by place. One for all executables of a backend. Thread: the
// engine thread.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "backends/metal/device.h"
#include "base/assert.h"

namespace ft::metal {

class RoundTokens {
 public:
  static constexpr std::int32_t kMaxTokens = 1 << 14;  // 64 slots with 16 drafts have 1,024

  static Result<std::shared_ptr<RoundTokens>> make(const std::shared_ptr<Device>& device) {
    std::shared_ptr<RoundTokens> round(new RoundTokens);
    FT_ASSIGN(round->memory_, Memory::make(device, kMaxTokens * sizeof(std::int32_t)));
    round->expected_.reserve(kMaxTokens);
    return round;
  }

  Place at() const { return memory_.at(); }
  /// A step was dispatched that writes `place`; `buffer` is the host's own.
  void expect(std::span<std::int32_t> buffer, std::int32_t place) {
    expected_.push_back({&buffer[index(place)], place});
  }
  /// A token that the host has chosen. No launch is running.
  void set(std::span<std::int32_t> buffer, std::int32_t place, std::int32_t token) {
    buffer[index(place)] = memory_.as<std::int32_t>()[index(place)] = token;
  }
  /// Copies tokens of finished steps into the host's buffers. No launch is running.
  void fill() {
    for (const Expected& one : expected_) *one.to = memory_.as<std::int32_t>()[index(one.place)];
    forget();
  }
  /// The buffers of earlier steps may be freed.
  void forget() { expected_.clear(); }

 private:
  struct Expected {
    std::int32_t* to;
    std::int32_t place;
  };
  RoundTokens() = default;
  static std::size_t index(std::int32_t place) {
    FT_ASSERT(place >= 0 && place < kMaxTokens);
    return static_cast<std::size_t>(place);
  }

  Memory memory_;
  std::vector<Expected> expected_;
};

}  // namespace ft::metal
