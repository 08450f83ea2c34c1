#include "backends/cpu/pack/apart.h"

#include <algorithm>

#include "backends/cpu/memory.h"
#include "backends/cpu/pack/pack.h"
#include "backends/cpu/pack/places.h"
#include "program/row_source.h"

namespace ft::cpu {
namespace {

constexpr std::int64_t kLine = 64;
constexpr std::int64_t kSpare = 16;  // a vector may be read past a row's end

/// Offsets in a row, and from a row to the next.
struct ApartPlaces {
  std::int64_t scales, biases, factors, stride;

  explicit ApartPlaces(const Packed& packed) {
    const std::int64_t of_scale = packed.factor_groups > 0 ? 1
                                  : packed.scale_bytes()   ? 1
                                                           : element_bytes(packed.format);
    const std::int64_t sets = packed.factor_groups > 0 ? packed.groups / packed.factor_groups : 0;
    scales = packed.columns;
    biases = scales + packed.groups * of_scale;
    factors = biases + packed.groups * of_scale;
    stride = round_up(factors + sets * 4, kLine);
    if (stride / kLine % 2 == 0) stride += kLine;  // sixteen rows must not share sets of the cache
  }
};

/// The codes of `columns` columns, 32 or 16, of four outputs: four columns in each word.
void load_quads(const std::byte* const* rows, std::int64_t at, int columns, Words (&quads)[8]) {
  for (int from = 0; from < columns; from += 16) {
    Words line[4];
    for (int i = 0; i < 4; ++i) std::memcpy(&line[i], rows[i] + at + from, sizeof line[i]);
    const Words a = __builtin_shufflevector(line[0], line[1], 0, 4, 1, 5);
    const Words b = __builtin_shufflevector(line[0], line[1], 2, 6, 3, 7);
    const Words c = __builtin_shufflevector(line[2], line[3], 0, 4, 1, 5);
    const Words d = __builtin_shufflevector(line[2], line[3], 2, 6, 3, 7);
    Words* const to = quads + from / 4;
    to[0] = __builtin_shufflevector(a, c, 0, 1, 4, 5), to[1] = __builtin_shufflevector(a, c, 2, 3, 6, 7);
    to[2] = __builtin_shufflevector(b, d, 0, 1, 4, 5), to[3] = __builtin_shufflevector(b, d, 2, 3, 6, 7);
  }
}

/// The codes of group g of all outputs.
template <int kBits, bool kHalf>
void place_codes(const Packed& packed, const Rows& rows, int g, std::byte* to) {
  constexpr int kColumns = kHalf ? kHalfUnitColumns : kUnitColumns;
  constexpr int kLow = kBits == 8 ? 8 : 4;
  Words quads[8];
  for (std::int64_t at = std::int64_t{g} * packed.group; at < (std::int64_t{g} + 1) * packed.group;
       at += kColumns, to += std::int64_t{kColumns} * 2 * kBits) {
    for (int lane = 0; lane < kLanes; lane += kWordRows) {
      std::byte* const place = to + std::int64_t{4} * lane;
      load_quads(rows.data() + lane, at, kColumns, quads);
      place_plane<0, kLow, kHalf>(quads, place);
      if constexpr (kBits > kLow)
        place_plane<kLow, kBits - kLow, kHalf>(quads, place + std::int64_t{kColumns} * 2 * kLow);
    }
  }
}

using PlaceCodes = void (*)(const Packed& packed, const Rows& rows, int g, std::byte* to);

/// Null: no source gives such codes apart.
PlaceCodes place_codes_of(const Packed& packed) {
  const bool half = packed.group == kHalfUnitColumns;
  switch (packed.bits) {
    case 4:
      return half ? place_codes<4, true> : place_codes<4, false>;
    case 5:
      return half ? nullptr : place_codes<5, false>;
    case 6:
      return half ? place_codes<6, true> : place_codes<6, false>;
    case 8:
      return half ? nullptr : place_codes<8, false>;
    default:
      return nullptr;
  }
}

using Octets = std::uint8_t __attribute__((vector_size(16)));

/// Sixteen integers from each output become sixteen outputs of each integer; the first `count` are written.
void place_integers(const Rows& rows, std::int64_t at, int count, std::byte* to) {
  Octets octets[kLanes], mixed[kLanes];
  for (std::size_t lane = 0; lane < kLanes; ++lane)
    std::memcpy(&octets[lane], rows[lane] + at, sizeof octets[0]);
  for (int round = 0; round < 4; ++round) {  // each brings element i of the lower and upper half together
    for (int i = 0; i < kLanes / 2; ++i) {
      const Octets low = octets[i], high = octets[i + kLanes / 2];
      mixed[2 * i] =
          __builtin_shufflevector(low, high, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
      mixed[2 * i + 1] =
          __builtin_shufflevector(low, high, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    }
    std::copy(mixed, mixed + kLanes, octets);
  }
  std::memcpy(to, octets, static_cast<std::size_t>(count) * kLanes);
}

/// Factors and integers of the groups from g on that share them.
void place_factors(const Packed& packed, const Rows& scales, const Rows& biases, const Rows& factors, int g,
                   std::byte* block) {
  const int groups = packed.factor_groups, kinds = packed.zero != 0 ? 1 : 2;
  std::byte* const integers = block + place_of(packed, g).scales;
  std::byte* const halves = integers - std::int64_t{2} * kinds * kLanes;
  for (int kind = 0; kind < kinds; ++kind) {
    const std::int64_t from = std::int64_t{g} / groups * 2 * kinds + 2 * kind;
    for (std::size_t lane = 0; lane < kLanes; ++lane)
      std::memcpy(halves + 2 * (static_cast<std::size_t>(kind) * kLanes + lane), factors[lane] + from, 2);
    place_integers(kind == 0 ? scales : biases, g, groups, integers + std::int64_t{kind} * groups * kLanes);
  }
}

}  // namespace

bool ApartBlock::suits(const Weight& weight, const Packed& packed) {
  return weight.from != nullptr && weight.from->apart() && packed.codes && !packed.requantised &&
         place_codes_of(packed) != nullptr;
}

void ApartBlock::fit(const Weight& weight, const Packed& packed) {
  if (!suits(weight, packed)) return;
  const auto stride = static_cast<std::size_t>(ApartPlaces(packed).stride);
  rows_.resize(std::max(rows_.size(), stride * kLanes + kSpare));
  zeros_.resize(std::max(zeros_.size(), stride + kSpare));
}

void ApartBlock::put(const Weight& weight, const Packed& packed, std::int64_t row, int lane) {
  const ApartPlaces places(packed);
  std::byte* const to = rows_.data() + lane * places.stride;
  weight.from->copy_apart(
      weight.from_row + row, 1,
      {to, to + places.scales, weight.format == Format::kAffine ? to + places.biases : nullptr,
       packed.factor_groups > 0 ? to + places.factors : nullptr});
}

void ApartBlock::pack(const Packed& packed, int lanes, std::byte* block) const {
  const ApartPlaces places(packed);
  const auto rows = [&](std::int64_t offset) {
    Rows found;
    for (int lane = 0; lane < kLanes; ++lane)
      found[static_cast<std::size_t>(lane)] =
          (lane < lanes ? rows_.data() + lane * places.stride : zeros_.data()) + offset;
    return found;
  };
  const Rows codes = rows(0), scales = rows(places.scales), biases = rows(places.biases);
  const Rows factors = rows(places.factors);
  const PlaceCodes place_codes = place_codes_of(packed);
  const std::int64_t element = packed.scale_bytes() ? 1 : element_bytes(packed.format);
  const auto place_scales = element == 1   ? cpu::place_scales<1>
                            : element == 2 ? cpu::place_scales<2>
                                           : cpu::place_scales<4>;
  for (int g = 0; g < packed.groups; ++g) {
    if (packed.factor_groups == 0) {
      place_scales(packed, scales, g, g + 1, 0, block);
      if (!packed.scale_bytes()) place_scales(packed, biases, g, g + 1, kLanes * element, block);
    } else if (g % packed.factor_groups == 0) {
      place_factors(packed, scales, biases, factors, g, block);
    }
    place_codes(packed, codes, g, block + place_of(packed, g).codes);
  }
}

}  // namespace ft::cpu
