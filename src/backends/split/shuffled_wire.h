// A wire for tests that delivers words late, in any order and rows torn apart: each time that a rank waits,
// some of the words under way arrive, or none. Thread: several at once.
#pragma once

#include <algorithm>
#include <atomic>
#include <mutex>
#include <random>
#include <vector>

#include "backends/split/exchange.h"

namespace ft::split {

class ShuffledWire final : public Wire {
 public:
  explicit ShuffledWire(unsigned seed) : random_(seed) {}

  void put(ExchangeWord* to, std::span<const float> values, std::uint32_t number) override {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < values.size(); ++i) under_way_.push_back({to + i, word(values[i], number)});
  }
  void waiting() override {
    const std::lock_guard lock(mutex_);
    std::ranges::shuffle(under_way_, random_);
    const std::size_t arriving = random_() % 4 == 0 ? under_way_.size() : random_() % (under_way_.size() + 1);
    for (std::size_t i = 0; i < arriving; ++i) {
      // A word that nobody has read yet must not be replaced.
      const std::uint64_t there = under_way_.back().to->load(std::memory_order_relaxed);
      if (there >> 32 >= under_way_.back().word >> 32) overtaken_ = true;
      under_way_.back().to->store(under_way_.back().word, std::memory_order_relaxed);
      under_way_.pop_back();
    }
  }
  void forget() override {
    const std::lock_guard lock(mutex_);
    under_way_.clear();
  }
  /// A later word has arrived before an earlier one of its place.
  bool overtaken() const { return overtaken_; }

 private:
  struct UnderWay {
    ExchangeWord* to = nullptr;
    std::uint64_t word = 0;
  };
  std::mutex mutex_;
  std::mt19937 random_;
  std::vector<UnderWay> under_way_;
  std::atomic<bool> overtaken_{false};
};

}  // namespace ft::split
