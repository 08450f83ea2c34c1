#include "backends/cpu/read_ahead.h"

#include <algorithm>

namespace ft::cpu {

void ReadAhead::plan(std::vector<std::vector<Pieces>> pieces, int workers) {
  pieces_ = std::move(pieces);
  places_.assign(static_cast<std::size_t>(workers), {});
  next_.assign(pieces_.size(), pieces_.size());
  for (std::size_t i = pieces_.size(); i-- > 1;) {
    const bool reads = std::ranges::any_of(pieces_[i], [](const Pieces& own) { return !own.empty(); });
    next_[i - 1] = reads ? i : next_[i];
  }
}

bool ReadAhead::fetch(std::size_t operation, int worker) {
  constexpr std::int64_t kLine = 64, kLines = 4;
  const std::size_t next = next_[operation];
  if (next == pieces_.size()) return false;
  Place& place = places_[static_cast<std::size_t>(worker)];
  if (place.operation != next) place = {next, 0, 0, kMostBytes};
  const Pieces& own = pieces_[next][static_cast<std::size_t>(worker)];
  if (place.left <= 0 || place.piece == own.size()) return false;
  const std::span<const std::byte> piece = own[place.piece];
  for (std::int64_t line = 0; line < kLines; ++line) {
    constexpr int kRead = 0, kSecondCache = 2;
    __builtin_prefetch(piece.data() + place.at + line * kLine, kRead, kSecondCache);
  }
  place.at += kLines * kLine, place.left -= kLines * kLine;
  if (place.at >= static_cast<std::int64_t>(piece.size())) place.at = 0, ++place.piece;
  return true;
}

}  // namespace ft::cpu
