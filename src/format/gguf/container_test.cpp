#include "format/gguf/container.h"

#include <cstring>
#include <gtest/gtest.h>

#include "base/mapped_file.h"
#include "format/affine.h"
#include "format/block_floats.h"
#include "format/gguf/blocks.h"

namespace ft::format::container_test {
namespace {

std::vector<std::byte> blocks_file() {
  const MappedFile file = *MappedFile::open("tests/golden/import/blocks.gguf");
  return {file.bytes().begin(), file.bytes().end()};
}

/// The values that gguf-py decodes, tensor after tensor.
std::vector<float> expected_values() {
  const MappedFile file = *MappedFile::open("tests/golden/import/blocks.expected.bin");
  std::vector<float> values((file.bytes().size() - 4) / 4);
  std::memcpy(values.data(), file.bytes().data() + 4, values.size() * 4);
  return values;
}

TEST(Gguf, EveryTypeDecodesAsTheReferenceDecodesIt) {
  const std::vector<std::byte> bytes = blocks_file();
  const GgufFile file = *parse_gguf(bytes, "blocks.gguf");
  const std::vector<float> expected = expected_values();
  ASSERT_EQ(file.tensors.size(), 15U);
  std::size_t at = 0;
  for (const GgufTensor& tensor : file.tensors) {
    ASSERT_EQ(tensor.shape, (std::vector<std::int64_t>{4, 512})) << tensor.name;
    EXPECT_EQ(gguf_type_name(tensor.type), tensor.name);
    const std::vector<float> wanted(expected.begin() + static_cast<std::ptrdiff_t>(at),
                                    expected.begin() + static_cast<std::ptrdiff_t>(at + 2048));
    const MatrixPointer matrix = gguf_matrix(tensor.type, 4, 512, tensor.bytes.data(), true);
    std::vector<float> values(2048);
    matrix->read(0, 4, values.data());
    EXPECT_EQ(values, wanted) << tensor.name;
    at += 2048;
    if (!matrix->codes()) continue;
    EXPECT_TRUE(matrix->codes()->exact) << tensor.name;
    const CodeFormat format = *matrix->codes();
    std::vector<std::byte> codes(4 * code_row_bytes(format.q, 512));
    std::vector<std::byte> scales(4 * scale_row_bytes(format, 512)), biases(scales.size());
    const bool affine = format.q.mode == QuantMode::kAffine;
    matrix->read_codes(0, 4, {codes.data(), scales.data(), affine ? biases.data() : nullptr});
    StoredMatrix stored{"m", DType::kU32, true, format.q.bits, format.q.group, 4, 512};
    stored.data = codes.data(), stored.scales = scales.data(), stored.biases = biases.data();
    stored.scale_dtype = format.scale_type, stored.mode = format.q.mode;
    if (affine) {
      dequantise_rows(stored, 0, 4, values.data());
    } else {
      dequantise_block_rows(stored, 0, 4, values.data());
    }
    EXPECT_EQ(values, wanted) << tensor.name << " by its codes";
  }
}

TEST(Gguf, ReadsMetadata) {
  const std::vector<std::byte> bytes = blocks_file();
  const GgufFile file = *parse_gguf(bytes, "blocks.gguf");
  EXPECT_EQ(file.text("general.architecture", ""), "none");
  EXPECT_EQ(file.text("text", ""), "grüße");
  EXPECT_EQ(file.real("real", 0), 0.5);
  EXPECT_EQ(std::get<std::vector<std::string>>(*file.find("list")), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(file.whole("absent", 7), 7);
}

TEST(Gguf, AFileCutAnywhereIsRefused) {
  const std::vector<std::byte> bytes = blocks_file();
  for (std::size_t length = 0; length < bytes.size(); length += length < 1500 ? 1 : 499) {
    EXPECT_FALSE(parse_gguf(std::span(bytes).first(length), "cut").ok()) << length;
  }
}

TEST(Gguf, UnknownVersionsAndTypesAreNamed) {
  std::vector<std::byte> bytes = blocks_file();
  bytes[4] = std::byte{9};
  EXPECT_NE(parse_gguf(bytes, "x").error().message.find("version 9"), std::string::npos);
  const std::vector<std::int64_t> shape = {2, 256};
  EXPECT_NE(gguf_bytes(16, shape, "x", "t").error().message.find("IQ2_XXS"), std::string::npos);
  const std::vector<std::int64_t> odd = {2, 100};
  EXPECT_FALSE(gguf_bytes(12, odd, "x", "t").ok());
}

}  // namespace
}  // namespace ft::format::container_test
