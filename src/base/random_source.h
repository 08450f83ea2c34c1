// Bytes from the system's random source (getentropy): for everything that a client must not predict, such as
// the ids of answers and default seeds. The program has no generator of its own in between, so one output
// reveals nothing about another. Thread: any. Cost: one system call, about a microsecond for a few bytes.
// Errors: std::system_error if the system refuses, as kernels before 3.17 do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace ft {

using RandomSource = std::function<void(std::span<std::byte>)>;

/// Fills at most 256 bytes.
void fill_random(std::span<std::byte> out);
std::uint64_t random_64();

/// While it lives, fill_random() asks `source`: for tests that need the same bytes each time. Only one may
/// exist at a time, and no other thread may draw while it begins or ends.
class ReplacedRandomSource {
 public:
  explicit ReplacedRandomSource(RandomSource source);
  ~ReplacedRandomSource();
  ReplacedRandomSource(const ReplacedRandomSource&) = delete;
  ReplacedRandomSource& operator=(const ReplacedRandomSource&) = delete;

 private:
  RandomSource source_;
};

}  // namespace ft
