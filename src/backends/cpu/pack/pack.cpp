#include "backends/cpu/pack/pack.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

#include "backends/cpu/memory.h"
#include "backends/cpu/pack/places.h"
#include "backends/weight_rows.h"
#include "base/assert.h"
#include "format/affine.h"
#include "program/row_source.h"

namespace ft::cpu {
namespace {

constexpr std::int64_t kPortionColumns = 1024;  // their part of a block fits a core's first cache
constexpr int kFactorGroups = 16;               // that share a factor, at most

/// Four codes, one per byte.
template <int kBits>
Words spread(Words four) {
  constexpr std::uint32_t kTwo = (1U << 2 * kBits) - 1, kOne = ((1U << kBits) - 1) * 0x00010001U;
  four = (four & kTwo) | (four & kTwo << 2 * kBits) << (16 - 2 * kBits);
  return (four & kOne) | (four & kOne << kBits) << (8 - kBits);
}

/// For widths whose words in the file hold the same codes as a word of the layout, in another order.
template <int kBits>
Words arrange(Words words) {
  if constexpr (kBits == 4) return spread<4>(words & 0xFFFFU) | spread<4>(words >> 16) << 4;
  if constexpr (kBits == 2) {  // pair 4s + j to place s of byte j: a transposition in two exchanges
    Words other = (words ^ words >> 6) & 0x00CC00CCU;
    words ^= other ^ other << 6;
    other = (words ^ words >> 12) & 0x0000F0F0U;
    words ^= other ^ other << 12;
  }
  return words;
}

/// A unit of a width with two planes; `from` is its offset in each row.
template <int kBits>
void place_unit(const std::byte* const* rows, std::int64_t from, std::byte* to) {
  constexpr int kLow = kBits > 4 ? 4 : 2;
  constexpr std::uint32_t kFour = (1U << 4 * kBits) - 1;
  Words words[kBits];
  for (int i = 0; i < kBits; ++i) words[i] = load_words(rows, from + 4 * i);
  Words quads[8];
  for (int q = 0; q < 8; ++q) {
    const int word = q * 4 * kBits / 32, bit = q * 4 * kBits % 32;
    Words four = words[word] >> bit;
    if (bit + 4 * kBits > 32) four |= words[word + 1] << (32 - bit);
    quads[q] = spread<kBits>(four & kFour);
  }
  place_plane<0, kLow>(quads, to);
  place_plane<kLow, kBits - kLow>(quads, to + std::int64_t{kLow} * 64);
}

/// Half a unit of 6 bits.
void place_half_unit(const std::byte* const* rows, std::int64_t from, std::byte* to) {
  constexpr int kBits = 6, kWords = 3;
  constexpr std::uint32_t kFour = (1U << 4 * kBits) - 1;
  Words words[kWords];
  for (int i = 0; i < kWords; ++i) words[i] = load_words(rows, from + 4 * i);
  Words quads[8] = {};
  for (int q = 0; q < 4; ++q) {
    const int word = q * 4 * kBits / 32, bit = q * 4 * kBits % 32;
    Words four = words[word] >> bit;
    if (bit + 4 * kBits > 32) four |= words[word + 1] << (32 - bit);
    quads[q] = spread<kBits>(four & kFour);
  }
  place_plane<0, 4, true>(quads, to);
  place_plane<4, 2, true>(quads, to + 128);
}

/// Pairs of columns, 16 bits each.
void place_halves(const Rows& rows, std::int64_t first, std::int64_t last, std::byte* to) {
  std::int64_t k = first;
  for (; k + 2 <= last; k += 2) {
    for (int lane = 0; lane < kLanes; lane += 2) {
      const std::uint32_t a = load_word(rows[lane] + 2 * k);
      const std::uint32_t b = load_word(rows[lane + 1] + 2 * k);
      store_word(to + (k * kLanes + lane) * 2, (a & 0xFFFFU) | b << 16);
      store_word(to + ((k + 1) * kLanes + lane) * 2, a >> 16 | (b & 0xFFFF0000U));
    }
  }
  if (k == last) return;
  for (int lane = 0; lane < kLanes; ++lane) std::memcpy(to + (k * kLanes + lane) * 2, rows[lane] + 2 * k, 2);
}

/// Pairs of columns, 16 bits each; a zero follows an odd last column.
void place_pairs(const Rows& rows, std::int64_t columns, std::byte* to) {
  for (std::int64_t k = 0; k + 2 <= columns; k += 2, to += kPairColumnBytes) {
    for (int lane = 0; lane < kLanes; ++lane) store_word(to + 4 * lane, load_word(rows[lane] + 2 * k));
  }
  if (columns % 2 == 0) return;
  for (int lane = 0; lane < kLanes; ++lane) {
    std::memset(to + 4 * lane, 0, 4);
    std::memcpy(to + 4 * lane, rows[lane] + 2 * (columns - 1), 2);
  }
}

/// Columns of one byte, from `from` on; `columns` is a multiple of four.
void place_bytes(const Rows& rows, std::int64_t from, std::int64_t columns, std::byte* to) {
  for (std::int64_t k = 0; k < columns; k += 4) {
    for (int lane = 0; lane < kLanes; lane += 4) {
      const std::uint32_t a = load_word(rows[lane] + from + k), b = load_word(rows[lane + 1] + from + k);
      const std::uint32_t c = load_word(rows[lane + 2] + from + k), d = load_word(rows[lane + 3] + from + k);
      constexpr std::uint32_t kEven = 0x00FF00FF;
      const std::uint32_t ab_even = (a & kEven) | (b & kEven) << 8, ab_odd = (a >> 8 & kEven) | (b & ~kEven);
      const std::uint32_t cd_even = (c & kEven) | (d & kEven) << 8, cd_odd = (c >> 8 & kEven) | (d & ~kEven);
      std::byte* at = to + k * kLanes + lane;
      store_word(at, (ab_even & 0xFFFFU) | cd_even << 16);
      store_word(at + kLanes, (ab_odd & 0xFFFFU) | cd_odd << 16);
      store_word(at + 2 * kLanes, ab_even >> 16 | (cd_even & 0xFFFF0000U));
      store_word(at + 3 * kLanes, ab_odd >> 16 | (cd_odd & 0xFFFF0000U));
    }
  }
}

struct Source {
  const Weight& weight;
  const std::vector<std::int32_t>& ids;
  const std::byte* zeros;  // a stored row for an output that does not exist

  std::int64_t row(std::int64_t output) const {
    return ids.empty() ? output : ids[static_cast<std::size_t>(output)];
  }

  /// Rows of `row_bytes` each in `data`.
  Rows rows(const Packed& packed, int index, const std::byte* data, std::int64_t row_bytes) const {
    Rows found;
    for (int lane = 0; lane < kLanes; ++lane) {
      const std::int64_t output = static_cast<std::int64_t>(index) * kLanes + lane;
      found[static_cast<std::size_t>(lane)] = output < packed.rows ? data + row(output) * row_bytes : zeros;
    }
    return found;
  }
};

/// Writes the codes of groups [first, last) of all outputs to their places in a block.
template <int kBits>
void place_groups(const Packed& packed, const Rows& rows, int first, int last, std::byte* block) {
  const std::int64_t group_bytes = std::int64_t{packed.group} * kBits / 8;
  for (int lane = 0; lane < kLanes; lane += kWordRows) {
    const std::byte* const* four = rows.data() + lane;
    for (int g = first; g < last; ++g) {
      std::byte* to = block + place_of(packed, g).codes + std::int64_t{4} * lane;
      const std::int64_t end = (g + 1) * group_bytes;
      if constexpr (8 % kBits == 0) {
        for (std::int64_t at = g * group_bytes; at < end; at += 4, to += 64) {
          store_words(to, arrange<kBits>(load_words(four, at)));
        }
      } else if (kBits == 6 && packed.group == kHalfUnitColumns) {
        place_half_unit(four, g * group_bytes, to);
      } else {
        constexpr std::int64_t kUnitBytes = std::int64_t{4} * kBits;
        for (std::int64_t at = g * group_bytes; at < end; at += kUnitBytes, to += 16 * kUnitBytes) {
          place_unit<kBits>(four, at, to);
        }
      }
    }
  }
}

using PlaceGroups = void (*)(const Packed& packed, const Rows& rows, int first, int last, std::byte* block);

PlaceGroups place_of_width(int bits) {
  constexpr PlaceGroups kPlaces[] = {place_groups<2>, place_groups<3>, place_groups<4>, place_groups<5>,
                                     place_groups<6>, nullptr,         place_groups<8>};
  return kPlaces[bits - 2];
}

void pack_quantised_block(const Source& source, const Packed& packed, int index, std::byte* block) {
  const Weight& weight = source.weight;
  const std::int64_t element = element_bytes(weight.scale_format);
  const std::int64_t scale_row = packed.groups * element;
  const Rows codes = source.rows(packed, index, weight.data, weight.cols * weight.bits / 8);
  const Rows scales = source.rows(packed, index, weight.scales, scale_row);
  const Rows biases =
      weight.biases == nullptr ? Rows{} : source.rows(packed, index, weight.biases, scale_row);
  const PlaceGroups place_codes = place_of_width(packed.bits);
  const auto place_scales = element == 1   ? cpu::place_scales<1>
                            : element == 2 ? cpu::place_scales<2>
                                           : cpu::place_scales<4>;
  const int portion = static_cast<int>(kPortionColumns / packed.group);
  for (int first = 0; first < packed.groups; first += portion) {
    const int last = std::min(first + portion, packed.groups);
    place_scales(packed, scales, first, last, 0, block);
    if (weight.biases != nullptr) place_scales(packed, biases, first, last, kLanes * element, block);
    if (packed.codes) place_codes(packed, codes, first, last, block);
    for (int g = first; g < last && !packed.codes; ++g) {
      place_bytes(codes, std::int64_t{g} * packed.group, packed.group, block + place_of(packed, g).codes);
    }
  }
}

/// Quantises a block's outputs to fewer bits, then packs them as if they had been stored so.
void pack_requantised_block(const Source& source, const Packed& packed, int index, std::byte* block,
                            PackScratch& scratch) {
  const std::int64_t first = static_cast<std::int64_t>(index) * kLanes;
  const std::int64_t words = packed.columns * packed.bits / 32, scales = std::int64_t{packed.groups} * 2;
  Packed part = packed;
  part.rows = std::min<std::int64_t>(kLanes, packed.rows - first);
  for (std::int64_t lane = 0; lane < part.rows; ++lane) {
    read_rows(source.weight, source.row(first + lane), 1, scratch.values.data());
    format::quantise_groups(scratch.values.data(), packed.groups, packed.bits, packed.group,
                            format::DType::kBF16, scratch.words.data() + lane * words,
                            scratch.scales.data() + lane * scales, scratch.biases.data() + lane * scales);
  }
  Weight codes;
  codes.format = Format::kAffine, codes.bits = packed.bits, codes.group = packed.group;
  codes.rows = part.rows, codes.cols = packed.columns;
  codes.data = reinterpret_cast<const std::byte*>(scratch.words.data());
  codes.scales = scratch.scales.data(), codes.biases = scratch.biases.data();
  static const std::vector<std::int32_t> kAll;
  pack_quantised_block({codes, kAll, source.zeros}, part, 0, block);
}

/// Makes a block's rows of a weight with a source: a weight of these rows alone.
Weight made_block(const Source& source, const Packed& packed, int index, PackScratch& scratch) {
  const std::int64_t first = static_cast<std::int64_t>(index) * kLanes;
  const std::int64_t count = std::min<std::int64_t>(kLanes, packed.rows - first);
  if (source.ids.empty()) return scratch.made.at(source.weight, first, count);
  for (std::int64_t lane = 0; lane < count; ++lane)
    scratch.made.put(source.weight, source.row(first + lane), lane);
  return scratch.made.collected(source.weight, count);
}

/// Values as stored, or as float32 if an offset is added to each.
void pack_plain_block(const Source& source, const Packed& packed, int index, std::byte* block,
                      std::vector<float>& lines) {
  const Weight& weight = source.weight;
  if (packed.format != Format::kF32) {
    const Rows rows = source.rows(packed, index, weight.data, weight.cols * 2);
    packed.pairs() ? place_pairs(rows, packed.columns, block) : place_halves(rows, 0, packed.columns, block);
    return;
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    const std::int64_t output = static_cast<std::int64_t>(index) * kLanes + lane;
    if (output >= packed.rows) break;  // the memory is zeroed
    read_rows(weight, source.row(output), 1, lines.data());
    for (std::int64_t k = 0; k < packed.columns; ++k) {
      std::memcpy(block + (k * kLanes + lane) * 4, &lines[static_cast<std::size_t>(k)], 4);
    }
  }
}

/// Rows with a byte for each code.
void pack_apart_block(const Source& source, const Packed& packed, int index, std::byte* block,
                      ApartBlock& apart) {
  const std::int64_t first = static_cast<std::int64_t>(index) * kLanes;
  const int lanes = static_cast<int>(std::min<std::int64_t>(kLanes, packed.rows - first));
  for (int lane = 0; lane < lanes; ++lane) apart.put(source.weight, packed, source.row(first + lane), lane);
  apart.pack(packed, lanes, block);
}

void pack_stored_block(const Source& source, const Packed& packed, int index, std::byte* block,
                       PackScratch& scratch) {
  if (packed.groups > 0) {
    pack_quantised_block(source, packed, index, block);
  } else {
    pack_plain_block(source, packed, index, block, scratch.values);
  }
}

}  // namespace

bool Packed::scale_bytes() const {
  return format == Format::kE8m0 || format == Format::kE4m3 || format == Format::kMxfp8;
}

Result<Packed> plan_pack(const Weight& weight, std::int64_t rows, int max_weight_bits) {
  Packed packed;
  packed.rows = rows;
  packed.columns = weight.cols;
  packed.blocks = static_cast<int>(round_up(rows, kLanes) / kLanes);
  if (max_weight_bits > 0 && weight.stored_bits() > max_weight_bits && weight.cols % 32 == 0) {
    packed.codes = packed.requantised = true;
    packed.bits = max_weight_bits;
    packed.group = weight.cols % 64 == 0 ? 64 : 32;
    packed.groups = static_cast<int>(weight.cols / packed.group);
    packed.format = Format::kBf16;
    packed.block_bytes = (weight.cols * packed.bits / 8 + std::int64_t{4} * packed.groups) * kLanes;
    return packed;
  }
  const bool half_units = weight.group == kHalfUnitColumns && (weight.bits == 4 || weight.bits == 6);
  const bool by_values = weight.offset != 0 || (weight.format == Format::kAffine &&
                                                weight.group == kHalfUnitColumns && !half_units);
  if (!weight.quantised() || by_values) {
    packed.format = by_values ? Format::kF32 : weight.format;
    const std::int64_t columns = packed.pairs() ? round_up(weight.cols, 2) : weight.cols;
    packed.block_bytes = columns * kLanes * element_bytes(packed.format);
    return packed;
  }
  const bool good_bits = weight.bits >= 2 && weight.bits <= 8 && weight.bits != 7;
  const bool good_group = half_units || weight.group == 32 || weight.group == 64 || weight.group == 128;
  if (weight.cols % weight.group != 0 ||
      (weight.format == Format::kAffine &&
       (!good_bits || !good_group || element_bytes(weight.scale_format) < 2))) {
    return Error{
        Code::kUnsupported,
        fmt::format(
            "cpu backend: {} has {} bits in groups of {} over {} columns; it takes 2, 3, 4, 5, 6 or 8 "
            "bits in groups of 32, 64 or 128, or 4 or 6 in groups of 16; quantise the model again with one "
            "of these",
            weight.name, weight.bits, weight.group, weight.cols)};
  }
  packed.codes = weight.format != Format::kMxfp8;
  packed.bits = weight.bits;
  packed.group = weight.group;
  packed.groups = static_cast<int>(weight.cols / weight.group);
  packed.format = packed.codes ? weight.scale_format : weight.format;
  const std::int64_t codes = weight.cols * kLanes * packed.bits / 8;
  const ScaleFactors factors = weight.from == nullptr ? ScaleFactors{} : weight.from->factors();
  if (factors.columns > 0) {
    packed.factor_groups = factors.columns / packed.group;
    packed.zero = factors.zero;
    FT_ASSERT(packed.factor_groups <= kFactorGroups && weight.cols % factors.columns == 0);
    FT_ASSERT(ApartBlock::suits(weight, packed));
    packed.block_bytes =
        codes + weight.cols / factors.columns * factor_bytes(packed.factor_groups, packed.zero);
    return packed;
  }
  packed.block_bytes = codes + (packed.scale_bytes() ? round_up(packed.groups, kScaleGroups) * kLanes
                                                     : std::int64_t{2} * packed.groups * kLanes *
                                                           element_bytes(packed.format));
  return packed;
}

void PackScratch::fit(const Weight& weight, const Packed& packed) {
  fit(packed);
  apart.fit(weight, packed);
  if (!ApartBlock::suits(weight, packed)) made.fit(weight, kLanes);
}

void PackScratch::fit(const Packed& packed) {
  const auto columns = static_cast<std::size_t>(packed.columns);
  zeros.resize(std::max(zeros.size(), columns * sizeof(float)));
  values.resize(std::max(values.size(), columns));
  if (!packed.requantised) return;
  const auto scale_bytes = static_cast<std::size_t>(packed.groups) * kLanes * 2;
  words.resize(std::max(words.size(), columns * kLanes * static_cast<std::size_t>(packed.bits) / 32));
  scales.resize(std::max(scales.size(), scale_bytes));
  biases.resize(std::max(biases.size(), scale_bytes));
}

void pack_blocks(const Weight& weight, const std::vector<std::int32_t>& ids, const Packed& packed, int first,
                 int last, std::byte* data, PackScratch& scratch) {
  static const std::vector<std::int32_t> kAll;
  const Source whole{weight, ids, scratch.zeros.data()};
  const bool by_values = packed.requantised || (packed.groups == 0 && packed.format == Format::kF32);
  const bool apart = ApartBlock::suits(weight, packed);
  for (int index = first; index < last; ++index) {
    std::byte* block = data + index * packed.block_bytes;
    if (packed.requantised) {
      pack_requantised_block(whole, packed, index, block, scratch);
      continue;
    }
    if (apart) {
      pack_apart_block(whole, packed, index, block, scratch.apart);
      continue;
    }
    if (weight.from == nullptr || by_values) {
      pack_stored_block(whole, packed, index, block, scratch);
      continue;
    }
    const Weight made = made_block(whole, packed, index, scratch);
    Packed part = packed;
    part.rows = made.rows;
    pack_stored_block({made, kAll, scratch.zeros.data()}, part, 0, block, scratch);
  }
}

}  // namespace ft::cpu
