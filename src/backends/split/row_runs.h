// Consecutive rows of a list of places.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ft::split {

/// Calls copy(row, place, count) for consecutive rows that go to consecutive places; a place < 0: none.
template <class Copy>
void each_run(std::span<const std::int32_t> places, const Copy& copy) {
  for (std::size_t row = 0; row < places.size();) {
    std::size_t end = row + 1;
    while (places[row] >= 0 && end < places.size() && places[end] == places[end - 1] + 1) ++end;
    if (places[row] >= 0) copy(static_cast<int>(row), places[row], static_cast<int>(end - row));
    row = end;
  }
}

}  // namespace ft::split
