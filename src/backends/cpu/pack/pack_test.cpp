#include "backends/cpu/pack/pack.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backends/packed_cache.h"
#include "backends/random_weights.h"
#include "backends/test_row_source.h"
#include "backends/weight_rows.h"
#include "base/checksum.h"
#include "format/affine.h"

namespace ft::cpu::pack_test {
namespace {

/// The same bytes on every machine.
std::vector<std::byte> filler(std::int64_t count) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(count));
  std::uint32_t state = 1;
  for (std::byte& byte : bytes) {
    state = state * 1664525U + 1013904223U;
    byte = static_cast<std::byte>(state >> 24);
  }
  return bytes;
}

std::string packed_fingerprint(Weight weight) {
  weight.rows = 37, weight.cols = 384;
  const std::vector<std::byte> data = filler(weight.rows * weight.cols * 4);
  weight.data = weight.scales = weight.biases = data.data();
  if (is_block_float(weight.format)) weight.biases = nullptr;
  const Packed packed = plan_pack(weight, weight.rows).value();
  std::vector<std::byte> out(static_cast<std::size_t>(packed.bytes()));
  PackScratch scratch;
  scratch.fit(packed);
  pack_blocks(weight, {}, packed, 0, packed.blocks, out.data(), scratch);
  return fmt::format("{:016x}", checksum(out));
}

std::vector<std::byte> packed_bytes(const Weight& weight, const std::vector<std::int32_t>& ids,
                                    int max_bits) {
  const std::int64_t rows = ids.empty() ? weight.rows : std::ssize(ids);
  const Packed packed = plan_pack(weight, rows, max_bits).value();
  std::vector<std::byte> out(static_cast<std::size_t>(packed.bytes()));
  PackScratch scratch;
  scratch.fit(weight, packed);
  pack_blocks(weight, ids, packed, 0, packed.blocks, out.data(), scratch);
  return out;
}

// Packed-weight caches hold weights packed by earlier programs. If this fails because packing has changed on
// purpose, raise kPackedFileVersion and write the new version and fingerprint here.
TEST(Pack, OtherBytesNeedAnotherVersionOfPreparedFiles) {
  std::string all;
  for (const int bits : {2, 3, 4, 5, 6, 8}) {
    for (const Format scales : {Format::kBf16, Format::kF16, Format::kF32}) {
      Weight weight;
      weight.format = Format::kAffine, weight.bits = bits, weight.scale_format = scales;
      weight.group = bits == 3 ? 32 : bits == 8 ? 128 : 64;
      all += packed_fingerprint(weight);
    }
  }
  Weight floats;
  floats.format = Format::kMxfp4, floats.bits = 4, floats.group = 32, floats.scale_format = Format::kE8m0;
  all += packed_fingerprint(floats);
  floats.format = Format::kNvfp4, floats.group = 16, floats.scale_format = Format::kE4m3;
  all += packed_fingerprint(floats);
  floats.format = Format::kMxfp8, floats.bits = 8, floats.group = 32, floats.scale_format = Format::kE8m0;
  all += packed_fingerprint(floats);
  for (const Format format : {Format::kBf16, Format::kF16, Format::kF32}) {
    Weight plain;
    plain.format = format;
    all += packed_fingerprint(plain);
  }
  for (const int zero : {0, 32}) {
    RandomWeights random(1);
    const auto rows = std::make_shared<FactoredRows>(
        random.affine(37, 512, zero == 0 ? 4 : 6, zero == 0 ? 32 : 16), ScaleFactors{256, zero}, random);
    all += fmt::format("{:016x}", checksum(packed_bytes(made_by(rows), {}, 0)));
  }
  EXPECT_EQ(kPackedFileVersion, 5U);
  EXPECT_EQ(fingerprint(all), "5f68d97dd1057ddabe5e5e219de38f4b");
}

TEST(Pack, RowsMadeOnDemandArePackedLikeStoredOnes) {
  RandomWeights random(7);
  std::vector<Weight> weights = {random.affine(37, 96, 5, 32, Format::kF16),
                                 random.affine(40, 80, 6, 16, Format::kF32),
                                 random.affine(33, 80, 4, 16, Format::kF32)};
  for (const Format format : {Format::kMxfp4, Format::kMxfp8, Format::kNvfp4})
    weights.push_back(random.block_float(format, 35, 160));
  for (const Format format : {Format::kBf16, Format::kF16, Format::kF32})
    weights.push_back(random.plain(format, 21, 35, 1));
  for (const Weight& stored : weights) {
    const Weight made = with_source(stored);
    for (const std::vector<std::int32_t>& ids : {std::vector<std::int32_t>(), {20, 3, 3, 0}}) {
      for (const int max_bits : {0, 4})
        EXPECT_EQ(packed_bytes(made, ids, max_bits), packed_bytes(stored, ids, max_bits))
            << format_name(stored.format) << " " << stored.bits;
    }
    const Weight part = rows_of(made, 5, 16, "part");
    EXPECT_EQ(packed_bytes(part, {}, 0), packed_bytes(rows_of(stored, 5, 16, "part"), {}, 0));
  }
}

// [columns / 2][16 outputs][2], with zeros where there is no column or no output.
TEST(Pack, Bf16StandsInPairsOfColumns) {
  for (const int columns : {1, 2, 5, 32}) {
    Weight weight;
    weight.format = Format::kBf16, weight.rows = 19, weight.cols = columns;
    const std::vector<std::byte> data = filler(weight.rows * columns * 2);
    weight.data = data.data();
    const Packed packed = plan_pack(weight, weight.rows).value();
    ASSERT_EQ(packed.block_bytes, std::int64_t{kPairColumnBytes} * ((columns + 1) / 2));
    std::vector<std::byte> out(static_cast<std::size_t>(packed.bytes()), std::byte{0x5A});
    PackScratch scratch;
    scratch.fit(packed);
    pack_blocks(weight, {}, packed, 0, packed.blocks, out.data(), scratch);
    const auto* values = reinterpret_cast<const std::uint16_t*>(data.data());
    const auto* placed = reinterpret_cast<const std::uint16_t*>(out.data());
    for (int output = 0; output < packed.blocks * kLanes; ++output) {
      for (int column = 0; column < (columns + 1) / 2 * 2; ++column) {
        const std::int64_t at = output / kLanes * packed.block_bytes / 2 + column / 2 * kLanes * 2 +
                                output % kLanes * 2 + column % 2;
        const int expected = output < weight.rows && column < columns ? values[output * columns + column] : 0;
        ASSERT_EQ(placed[at], expected) << columns << " columns, output " << output << ", column " << column;
      }
    }
  }
}

/// The values of `weight`, quantised as MLX does it and then packed as if stored so.
std::vector<std::byte> quantised_and_packed(const Weight& weight, int bits, int group) {
  std::vector<float> values(static_cast<std::size_t>(weight.rows * weight.cols));
  read_rows(weight, 0, weight.rows, values.data());
  const format::AffineMatrix made =
      format::quantise_affine(values, weight.rows, weight.cols, bits, group, format::DType::kBF16);
  Weight codes;
  codes.format = Format::kAffine, codes.bits = bits, codes.group = group;
  codes.rows = weight.rows, codes.cols = weight.cols;
  codes.data = reinterpret_cast<const std::byte*>(made.words.data());
  codes.scales = made.scales.data(), codes.biases = made.biases.data();
  const Packed packed = plan_pack(codes, codes.rows).value();
  std::vector<std::byte> out(static_cast<std::size_t>(packed.bytes()));
  PackScratch scratch;
  scratch.fit(packed);
  pack_blocks(codes, {}, packed, 0, packed.blocks, out.data(), scratch);
  return out;
}

TEST(Pack, WhatIsStoredInMoreBitsIsRequantisedAsMlxWouldHaveDoneIt) {
  const std::vector<std::byte> data = filler(37 * 384 * 4);
  for (const int most : {4, 8}) {
    for (const std::int64_t columns : {384, 96}) {
      Weight plain;
      plain.format = Format::kF16, plain.rows = 37, plain.cols = columns, plain.data = data.data();
      Weight eight = plain;
      eight.format = Format::kAffine, eight.bits = 8, eight.group = 32;
      eight.scales = eight.biases = data.data() + 1000;
      for (const Weight& weight : {plain, eight}) {
        const Packed packed = plan_pack(weight, weight.rows, most).value();
        EXPECT_EQ(packed.requantised, weight.stored_bits() > most);
        if (!packed.requantised) continue;
        EXPECT_EQ(packed.group, columns % 64 == 0 ? 64 : 32);
        std::vector<std::byte> out(static_cast<std::size_t>(packed.bytes()));
        PackScratch scratch;
        scratch.fit(packed);
        // In two parts, the later one first, because workers may do so.
        pack_blocks(weight, {}, packed, 1, packed.blocks, out.data(), scratch);
        pack_blocks(weight, {}, packed, 0, 1, out.data(), scratch);
        EXPECT_EQ(out, quantised_and_packed(weight, most, packed.group)) << most << " of " << columns;
      }
    }
  }
}

TEST(Pack, ListedRowsAreRequantisedByThemselves) {
  const std::vector<std::byte> data = filler(37 * 384 * 4);
  Weight weight;
  weight.format = Format::kBf16, weight.rows = 37, weight.cols = 384, weight.data = data.data();
  const std::vector<std::int32_t> ids = {36, 0, 5};
  const auto packed_of = [&](const Weight& of, const std::vector<std::int32_t>& rows, std::int64_t count) {
    const Packed packed = plan_pack(of, count, 4).value();
    std::vector<std::byte> out(static_cast<std::size_t>(packed.bytes()));
    PackScratch scratch;
    scratch.fit(packed);
    pack_blocks(of, rows, packed, 0, packed.blocks, out.data(), scratch);
    return out;
  };
  std::vector<std::byte> chosen_rows;
  for (const std::int32_t id : ids)
    chosen_rows.insert(chosen_rows.end(), &data[id * 768UL], &data[id * 768UL] + 768);
  Weight alone = weight;
  alone.rows = 3, alone.data = chosen_rows.data();
  EXPECT_EQ(packed_of(weight, ids, 3), packed_of(alone, {}, 3));
}

TEST(Pack, AWidthThatNoGroupDividesStaysAsItIsStored) {
  Weight weight;
  weight.format = Format::kBf16, weight.rows = 37, weight.cols = 40;
  EXPECT_FALSE(plan_pack(weight, 37, 4).value().requantised);
}

}  // namespace
}  // namespace ft::cpu::pack_test
