#include "backends/split/exchange.h"

#include "base/assert.h"

namespace ft::split {

void Mailboxes::reserve(std::size_t values) {
  if (values <= capacity_ && words_) return;
  capacity_ = values;
  words_ = std::make_unique<ExchangeWord[]>(size());
}

void Mailboxes::clear() {
  wire_->forget();
  for (std::size_t i = 0; words_ && i < size(); ++i) words_[i].store(0, std::memory_order_relaxed);
}

void Mailboxes::send(int from, int to, std::uint32_t number, std::span<const float> values) {
  FT_ASSERT(values.size() <= capacity_ && number > 0);
  ExchangeWord* const words = box(to, from, number);
  const auto count = std::bit_cast<float>(static_cast<std::uint32_t>(values.size()));
  wire_->put(words, {&count, 1}, number);
  wire_->put(words + 1, values, number);
}

Mailboxes::Arrival Mailboxes::arrival(int to, int from, std::uint32_t number, std::size_t values,
                                      std::size_t& seen) const {
  const ExchangeWord* const words = box(to, from, number);
  for (; seen <= values; ++seen) {
    const std::uint64_t word = words[seen].load(std::memory_order_acquire);
    if (word >> 32 != number) return Arrival::kWaiting;
    if (seen == 0 && static_cast<std::uint32_t>(word) != values) return Arrival::kOther;
  }
  return Arrival::kThere;
}

}  // namespace ft::split
