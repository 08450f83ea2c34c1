#include "backends/cpu/pack/apart.h"

#include <bit>
#include <gtest/gtest.h>

#include "backends/cpu/pack/pack.h"
#include "backends/cpu/pack/places.h"
#include "backends/random_weights.h"
#include "format/gguf/blocks.h"
#include "format/half.h"
#include "program/row_source.h"

namespace ft::cpu::apart_test {
namespace {

using format::MatrixPointer;

/// Rows of a matrix of the format floor, as the models floor gives them.
class MatrixRows final : public RowSource {
 public:
  MatrixRows(MatrixPointer matrix, bool apart) : matrix_(std::move(matrix)), apart_(apart) {}
  void copy(std::int64_t first, std::int64_t count, const RowBytes& to) const override {
    matrix_->read_codes(first, count, {to.data, to.scales, to.biases});
  }
  void read(std::int64_t first, std::int64_t count, float* out) const override {
    matrix_->read(first, count, out);
  }
  ScaleFactors factors() const override {
    const format::FactoredScales found = matrix_->codes()->factored;
    return apart_ ? ScaleFactors{found.columns, found.zero} : ScaleFactors{};
  }
  bool apart() const override { return apart_; }
  void copy_apart(std::int64_t first, std::int64_t count, const RowBytes& to) const override {
    matrix_->read_apart(first, count, {to.data, to.scales, to.biases, to.factors});
  }

 private:
  MatrixPointer matrix_;
  bool apart_;
};

Weight weight_of(const MatrixPointer& matrix, bool apart) {
  const format::CodeFormat format = *matrix->codes();
  Weight weight;
  weight.name = "w";
  weight.rows = matrix->rows(), weight.cols = matrix->cols();
  weight.format = format.q.mode == format::QuantMode::kMxfp4 ? Format::kMxfp4 : Format::kAffine;
  weight.bits = format.q.bits, weight.group = format.q.group;
  weight.scale_format = weight.format == Format::kMxfp4            ? Format::kE8m0
                        : format.scale_type == format::DType::kF32 ? Format::kF32
                                                                   : Format::kF16;
  weight.from = std::make_shared<MatrixRows>(matrix, apart);
  return weight;
}

std::vector<std::byte> packed_bytes(const Weight& weight, const Packed& packed,
                                    const std::vector<std::int32_t>& ids) {
  std::vector<std::byte> out(static_cast<std::size_t>(packed.bytes()));
  PackScratch scratch;
  scratch.fit(weight, packed);
  pack_blocks(weight, ids, packed, packed.blocks / 2, packed.blocks, out.data(), scratch);
  pack_blocks(weight, ids, packed, 0, packed.blocks / 2, out.data(), scratch);
  return out;
}

template <class T>
T at(const std::byte* from, std::int64_t index) {
  T value;
  std::memcpy(&value, from + index * static_cast<std::int64_t>(sizeof value), sizeof value);
  return value;
}

/// The bits of the scales, then of the biases, of group g of a block.
std::vector<std::uint32_t> scale_bits(const Packed& packed, const std::byte* block, int g) {
  std::vector<std::uint32_t> bits;
  const std::byte* scales = block + place_of(packed, g).scales;
  if (packed.factor_groups == 0) {
    for (int i = 0; i < 2 * kLanes; ++i) bits.push_back(at<std::uint32_t>(scales, i));
    return bits;
  }
  const int in = g % packed.factor_groups, kinds = packed.zero != 0 ? 1 : 2;
  const std::byte* const integers = scales - std::int64_t{in} * kLanes;
  const std::byte* const halves = integers - std::int64_t{2} * kinds * kLanes;
  const auto product = [&](int kind, int lane) {
    const std::int64_t at_integer = (std::int64_t{kind} * packed.factor_groups + in) * kLanes + lane;
    return format::f16_to_float(at<std::uint16_t>(halves, kind * kLanes + lane)) *
           static_cast<float>(at<std::int8_t>(integers, at_integer));
  };
  for (int lane = 0; lane < kLanes; ++lane) bits.push_back(std::bit_cast<std::uint32_t>(product(0, lane)));
  for (int lane = 0; lane < kLanes; ++lane) {
    const float bias =
        packed.zero != 0 ? static_cast<float>(-packed.zero) * product(0, lane) : product(1, lane);
    bits.push_back(std::bit_cast<std::uint32_t>(bias));
  }
  return bits;
}

/// Packed from codes apart, a weight has the bytes that it has when it is packed from its stream of codes; if
/// its scales are products, the bits of its codes and of the products.
void expect_alike(const Weight& apart, const Weight& stream, const std::vector<std::int32_t>& ids) {
  const std::int64_t rows = ids.empty() ? apart.rows : std::ssize(ids);
  const Packed packed = plan_pack(apart, rows).value(), plain = plan_pack(stream, rows).value();
  const std::vector<std::byte> found = packed_bytes(apart, packed, ids),
                               expected = packed_bytes(stream, plain, ids);
  if (packed.factor_groups == 0) {
    ASSERT_EQ(found, expected);
    return;
  }
  const std::int64_t codes = std::int64_t{packed.group} * kLanes * packed.bits / 8;
  for (int b = 0; b < packed.blocks; ++b) {
    const std::byte* const block = found.data() + b * packed.block_bytes;
    const std::byte* const other = expected.data() + b * plain.block_bytes;
    for (int g = 0; g < packed.groups; ++g) {
      ASSERT_EQ(std::memcmp(block + place_of(packed, g).codes, other + place_of(plain, g).codes,
                            static_cast<std::size_t>(codes)),
                0)
          << "block " << b << ", group " << g;
      std::vector<std::uint32_t> products = scale_bits(packed, block, g);
      const int outputs = static_cast<int>(std::min<std::int64_t>(kLanes, rows - std::int64_t{b} * kLanes));
      std::vector<std::uint32_t> scales = scale_bits(plain, other, g);
      for (int lane = outputs; lane < kLanes; ++lane) products[lane + kLanes] = 0;  // -zero * 0 is -0
      ASSERT_EQ(products, scales) << "block " << b << ", group " << g;
    }
  }
}

void expect_packed_alike(const MatrixPointer& matrix) {
  const Weight apart = weight_of(matrix, true), stream = weight_of(matrix, false);
  const auto last = static_cast<std::int32_t>(matrix->rows() - 1);
  for (const std::vector<std::int32_t>& ids : {std::vector<std::int32_t>(), {last, 0, last / 2, last, 0}})
    expect_alike(apart, stream, ids);
  const std::int64_t first = last / 3;
  expect_alike(rows_of(apart, first, last - first, "part"), rows_of(stream, first, last - first, "part"), {});
}

/// Random bytes are valid blocks; a factor may be infinite or NaN too.
struct Blocks {
  std::vector<std::byte> bytes;
  MatrixPointer matrix;

  Blocks(std::uint32_t type, std::int64_t rows, std::int64_t cols, bool wide) {
    RandomWeights random(type * 1000 + static_cast<std::uint64_t>(rows));
    const std::int64_t shape[] = {rows, cols};
    bytes.resize(format::gguf_bytes(type, shape, "file", "tensor").value());
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.below(256));
    matrix = format::gguf_matrix(type, rows, cols, bytes.data(), wide);
  }
};

constexpr std::uint32_t kTypes[] = {2, 3, 6, 7, 8, 20, 39, 10, 11, 12, 13, 14};

TEST(Apart, EveryTypeOfGgufIsPackedAsItsStreamOfCodesWouldBe) {
  for (const std::uint32_t type : kTypes) {
    const bool super = type >= 10 && type <= 14;
    for (const std::int64_t cols :
         super ? std::vector<std::int64_t>{256, 768, 4096} : std::vector<std::int64_t>{32, 96, 352}) {
      for (const std::int64_t rows : {2, 16, 37}) {
        for (const bool wide : {true, false}) {
          SCOPED_TRACE(format::gguf_type_name(type) + " " + std::to_string(rows) + "x" +
                       std::to_string(cols));
          expect_packed_alike(Blocks(type, rows, cols, wide).matrix);
        }
      }
    }
  }
}

TEST(Apart, RowsAndColumnsInAnotherOrderToo) {
  for (const std::uint32_t type : kTypes) {
    SCOPED_TRACE(format::gguf_type_name(type));
    const Blocks blocks(type, 40, 1024, true), others(type, 24, 1024, true);
    expect_packed_alike(format::rows_in_order(blocks.matrix, 4, 6, {5, 0, 3, 1, 4, 2}));
    expect_packed_alike(format::row_blocks(blocks.matrix, 20, 5, 10, 5));
    const Blocks more(type, 40, 1024, true);
    expect_packed_alike(format::stacked({blocks.matrix, more.matrix}));
    for (const std::int64_t block : {32, 256}) {
      std::vector<std::int64_t> order;
      for (std::int64_t i = 0; i < 1024 / block; ++i) order.push_back((i * 3 + 1) % (1024 / block));
      expect_packed_alike(
          format::rows_in_order(format::columns_in_order(others.matrix, block, order), 0, 8, {2, 0, 1}));
    }
  }
}

}  // namespace
}  // namespace ft::cpu::apart_test
