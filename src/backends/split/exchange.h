// How ranks send each other columns of a row. A word of 64 bits has one value and the number of its exchange,
// and it is stored at once. So a receiver sees each word whole or not at all, and no order of arrival is
// needed: it waits until every word that it expects has the number. Each rank has two places for each
// sender, used in turn. A rank sends to all others in every exchange, at least one word; so it is at most
// one exchange ahead of the slowest, and no word is overwritten before it was read (stores release, waits
// acquire, so a rank's reads come before its next words).
// Owner: RankGroup. Thread: one for each rank calls send() and receive() with its own number, all at once;
// reserve() and clear() while none does. Cost: 8 bytes a value; nothing is allocated or locked.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace ft::split {

using ExchangeWord = std::atomic<std::uint64_t>;

/// Carries words to another rank's memory. Another wire may deliver them late and in any order, but each word
/// whole. Thread: several at once.
class Wire {
 public:
  virtual ~Wire() = default;
  /// values[i], under `number`, to to[i].
  virtual void put(ExchangeWord* to, std::span<const float> values, std::uint32_t number) {
    for (std::size_t i = 0; i < values.size(); ++i)
      to[i].store(word(values[i], number), std::memory_order_release);
  }
  static std::uint64_t word(float value, std::uint32_t number) {
    return (std::uint64_t{number} << 32) | std::bit_cast<std::uint32_t>(value);
  }
  /// A rank waits for words.
  virtual void waiting() {}
  /// Words that are under way no longer belong to an exchange.
  virtual void forget() {}
};

class Mailboxes {
 public:
  Mailboxes(int ranks, Wire& wire) : ranks_(ranks), wire_(&wire) {}

  /// Room for `values` values from each rank.
  void reserve(std::size_t values);
  /// Forgets all words: numbers begin again at 1.
  void clear();

  /// Sends `values` of exchange `number` (1, 2 ...) to one rank.
  void send(int from, int to, std::uint32_t number, std::span<const float> values);

  enum class Arrival { kWaiting, kThere, kOther };
  /// Whether all `values` words are there; kOther: the sender sent another number of them. `seen`: words that
  /// are known to be there, 0 before the first call.
  Arrival arrival(int to, int from, std::uint32_t number, std::size_t values, std::size_t& seen) const;
  /// Value `index` of a sender, after kThere and before this rank sends the next exchange but one.
  float value(int to, int from, std::uint32_t number, std::size_t index) const {
    const std::uint64_t word = box(to, from, number)[index + 1].load(std::memory_order_relaxed);
    return std::bit_cast<float>(static_cast<std::uint32_t>(word));
  }
  void waiting() { wire_->waiting(); }

 private:
  ExchangeWord* box(int to, int from, std::uint32_t number) const {
    const auto index =
        (static_cast<std::size_t>(to) * static_cast<std::size_t>(ranks_) + static_cast<std::size_t>(from)) *
            2 +
        number % 2;
    return words_.get() + index * (capacity_ + 1);
  }
  std::size_t size() const {
    return static_cast<std::size_t>(ranks_) * static_cast<std::size_t>(ranks_) * 2 * (capacity_ + 1);
  }

  int ranks_;
  Wire* wire_;
  std::size_t capacity_ = 0;               // values; before them a word with their number
  std::unique_ptr<ExchangeWord[]> words_;  // [receiver, sender, 2, capacity_ + 1]
};

}  // namespace ft::split
