#include "backends/cpu/pack.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <fmt/format.h>

#include "backends/cpu/memory.h"
#include "backends/weight_rows.h"

namespace ft::cpu {
namespace {

/// 16-bit formats are kept bit for bit; what came from them goes back without rounding.
void store_value(Format format, float value, std::byte* to) {
  if (format == Format::kF32) {
    std::memcpy(to, &value, sizeof value);
    return;
  }
  const auto bits = std::bit_cast<std::uint32_t>(value);
  std::uint16_t half = 0;
  if (format == Format::kBf16) {
    half = static_cast<std::uint16_t>(bits >> 16);
  } else {  // the value was a float16, so its exponent and mantissa fit
    const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000U);
    const std::uint32_t exponent = (bits >> 23) & 255U;
    const std::uint32_t mantissa = bits & 0x7FFFFFU;
    if (exponent == 255) {
      half = static_cast<std::uint16_t>(sign | 0x7C00U | (mantissa >> 13));
    } else if (exponent >= 113) {
      half = static_cast<std::uint16_t>(sign | ((exponent - 112) << 10) | (mantissa >> 13));
    } else if (exponent >= 103) {
      half = static_cast<std::uint16_t>(sign | ((mantissa | 0x800000U) >> (126 - exponent)));
    } else {
      half = sign;
    }
  }
  std::memcpy(to, &half, sizeof half);
}

struct Source {
  const Weight& weight;
  const std::vector<std::int32_t>& ids;

  std::int64_t row(std::int64_t output) const {
    return ids.empty() ? output : ids[static_cast<std::size_t>(output)];
  }
};

/// Adds `width` bits of one output's codes, taken from bit `from` on, to the planes of one unit.
void place_plane(const std::uint8_t* codes, int from, int width, int lane, std::byte* plane) {
  const int quads = 8 / width;  // of a vector
  const unsigned mask = (1U << width) - 1U;
  for (int q = 0; q < kUnitColumns / 4; ++q) {
    std::byte* at = plane + q / quads * 64 + 4 * lane;
    for (int j = 0; j < 4; ++j) {
      const unsigned part = (static_cast<unsigned>(codes[4 * q + j]) >> from) & mask;
      at[j] |= static_cast<std::byte>(part << (q % quads * width));
    }
  }
}

/// One output's codes of one block, whose memory is zeroed.
void place_codes(const std::uint8_t* codes, const Packed& packed, int lane, std::byte* block) {
  const int low = packed.bits == 8 ? 8 : packed.bits >= 4 ? 4 : 2;
  const std::int64_t scale_bytes = packed.format == Format::kF32 ? 64 : 32;
  for (int g = 0; g < packed.groups; ++g) {
    for (int u = 0; u < packed.group / kUnitColumns; ++u, codes += kUnitColumns) {
      place_plane(codes, 0, low, lane, block);
      block += static_cast<std::int64_t>(low) * 64;
      if (packed.bits == low) continue;
      place_plane(codes, low, packed.bits - low, lane, block);
      block += static_cast<std::int64_t>(packed.bits - low) * 64;
    }
    block += 2 * scale_bytes;
  }
}

void pack_code_block(const Source& source, const Packed& packed, int index, std::byte* block,
                     std::vector<std::uint8_t>& codes, std::vector<float>& scales) {
  const std::int64_t element = packed.format == Format::kF32 ? 4 : 2;
  const std::int64_t group_bytes = packed.block_bytes / packed.groups;
  for (int lane = 0; lane < kLanes; ++lane) {
    const std::int64_t output = static_cast<std::int64_t>(index) * kLanes + lane;
    if (output >= packed.rows) break;  // the memory is zeroed
    float* biases = scales.data() + packed.groups;
    read_codes(source.weight, source.row(output), codes.data());
    read_scales(source.weight, source.row(output), scales.data(), biases);
    place_codes(codes.data(), packed, lane, block);
    for (int g = 0; g < packed.groups; ++g) {
      std::byte* at = block + (g + 1) * group_bytes - 2 * kLanes * element;
      store_value(packed.format, scales[static_cast<std::size_t>(g)], at + lane * element);
      store_value(packed.format, biases[g] + source.weight.offset, at + (kLanes + lane) * element);
    }
  }
}

void pack_plain_block(const Source& source, const Packed& packed, int index, std::byte* block,
                      std::vector<float>& line) {
  const std::int64_t element = packed.format == Format::kF32 ? 4 : 2;
  for (int lane = 0; lane < kLanes; ++lane) {
    const std::int64_t output = static_cast<std::int64_t>(index) * kLanes + lane;
    if (output >= packed.rows) break;
    read_rows(source.weight, source.row(output), 1, line.data());
    for (std::int64_t k = 0; k < packed.columns; ++k) {
      store_value(packed.format, line[static_cast<std::size_t>(k)], block + (k * kLanes + lane) * element);
    }
  }
}

}  // namespace

Result<Packed> plan_pack(const Weight& weight, std::int64_t rows) {
  Packed packed;
  packed.rows = rows;
  packed.columns = weight.cols;
  packed.blocks = static_cast<int>(round_up(rows, kLanes) / kLanes);
  if (weight.format != Format::kAffine) {
    packed.format = weight.offset == 0 ? weight.format : Format::kF32;
    packed.block_bytes = weight.cols * kLanes * (packed.format == Format::kF32 ? 4 : 2);
    return packed;
  }
  const bool good_bits = weight.bits >= 2 && weight.bits <= 8 && weight.bits != 7;
  const bool good_group = weight.group == 32 || weight.group == 64 || weight.group == 128;
  if (!good_bits || !good_group || weight.cols % weight.group != 0 ||
      weight.scale_format == Format::kAffine) {
    return Error{
        Code::kUnsupported,
        fmt::format(
            "cpu backend: {} has {} bits in groups of {} over {} columns; it takes 2, 3, 4, 5, 6 or 8 "
            "bits in groups of 32, 64 or 128; quantise the model again with one of these",
            weight.name, weight.bits, weight.group, weight.cols)};
  }
  packed.codes = true;
  packed.bits = weight.bits;
  packed.group = weight.group;
  packed.groups = static_cast<int>(weight.cols / weight.group);
  packed.format = weight.offset == 0 ? weight.scale_format : Format::kF32;
  const std::int64_t scale_bytes = packed.format == Format::kF32 ? 64 : 32;
  packed.block_bytes =
      packed.groups * (static_cast<std::int64_t>(packed.group) * kLanes * packed.bits / 8 + 2 * scale_bytes);
  return packed;
}

void PackScratch::fit(const Packed& packed) {
  const std::int64_t code_count = packed.codes ? packed.columns : 0;
  const std::int64_t float_count = packed.codes ? 2 * packed.groups : packed.columns;
  codes.resize(std::max(codes.size(), static_cast<std::size_t>(code_count)));
  floats.resize(std::max(floats.size(), static_cast<std::size_t>(float_count)));
}

void pack_blocks(const Weight& weight, const std::vector<std::int32_t>& ids, const Packed& packed, int first,
                 int last, std::byte* data, PackScratch& scratch) {
  const Source source{weight, ids};
  for (int index = first; index < last; ++index) {
    std::byte* block = data + index * packed.block_bytes;
    if (packed.codes) {
      pack_code_block(source, packed, index, block, scratch.codes, scratch.floats);
    } else {
      pack_plain_block(source, packed, index, block, scratch.floats);
    }
  }
}

}  // namespace ft::cpu
