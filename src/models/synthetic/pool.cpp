#include "models/synthetic/pool.h"

#include <array>
#include <cstring>

#include "format/half.h"

namespace ft {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kPlaces = 1 << 14;  // start offsets of windows on a block
constexpr std::size_t kSlack = kAlignment * kPlaces;

}  // namespace

std::byte* SynthPool::bytes(std::size_t count) {
  memory_.push_back(std::make_unique_for_overwrite<std::uint64_t[]>(count / sizeof(std::uint64_t) + 1));
  return reinterpret_cast<std::byte*>(memory_.back().get());
}

template <class Fill>
const std::byte* SynthPool::at_least(Block& block, std::size_t size, Fill fill) {
  if (block.bytes < size) {
    block = {bytes(size), size};
    fill(block.data, size);
  }
  return block.data;
}

std::size_t SynthPool::place(std::string_view name) const {
  return Random(seed_, name).next() % kPlaces * kAlignment;
}

const std::byte* SynthPool::codes(std::size_t size, std::string_view name) {
  const auto fill = [this](std::byte* data, std::size_t count) {
    Random random(seed_, "codes");
    for (std::size_t i = 0; i < count; i += sizeof(std::uint64_t)) {
      const std::uint64_t word = random.next();  // the block ends with a complete word
      std::memcpy(data + i, &word, sizeof word);
    }
  };
  return at_least(codes_, size + kSlack, fill) + place(name);
}

SynthPool::Halves SynthPool::scales(float step, float levels, std::size_t count) {
  const auto fill = [&](float factor) {
    return [this, factor](std::byte* data, std::size_t size) {
      Random jitter(seed_, "scales");  // the same for both: a bias belongs to its scale
      for (std::size_t i = 0; i < size; i += 2) {
        const std::uint16_t half = format::float_to_bf16(factor * (0.8F + 0.4F * jitter.uniform()));
        std::memcpy(data + i, &half, sizeof half);
      }
    };
  };
  return {at_least(scales_[step], count * 2, fill(step)),
          at_least(biases_[step], count * 2, fill(-step * levels / 2))};
}

const std::byte* SynthPool::values(float deviation, std::size_t count, std::string_view name) {
  const auto fill = [&](std::byte* data, std::size_t size) {
    Random random(seed_, "values");
    std::array<std::uint16_t, 4096>
        table;  // indexed with 12 bits per value: much faster than a word per value
    for (std::uint16_t& half : table) half = format::float_to_bf16(deviation * random.wake());
    std::uint64_t word = 0;
    int left = 0;
    for (std::size_t i = 0; i < size; i += 2) {
      if (left-- == 0) word = random.next(), left = 4;
      std::memcpy(data + i, &table[word & 4095U], 2);
      word >>= 12;
    }
  };
  return at_least(values_[deviation], count * 2 + kSlack, fill) + place(name);
}

}  // namespace ft
