#include "convert/foreign/modules.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/mapped_file.h"
#include "format/block_floats.h"
#include "format/model_fixture.h"
#include "format/safetensors.h"

namespace ft::convert::modules_test {
namespace {

struct Golden {
  MappedFile file;
  format::Checkpoint checkpoint;
  ForeignConfig config;
  std::vector<float> expected;
  format::MatrixPointer matrix;
};

/// tools/make_import_golden.py made the files.
Golden open(const std::string& name, bool float32_scales = false) {
  Golden golden;
  golden.file = *MappedFile::open("tests/golden/import/" + name + ".safetensors");
  format::Safetensors contents = *format::parse_safetensors(golden.file.bytes(), name);
  const nlohmann::json config = nlohmann::json::parse(contents.metadata.at("config"));
  golden.checkpoint = *format::Checkpoint::of_memory(name, std::move(contents.tensors), "pt", nullptr);
  golden.config = *read_foreign_config(config, name);
  const format::TensorView& expected = *golden.checkpoint.find("expected");
  golden.expected.resize(static_cast<std::size_t>(expected.shape[0] * expected.shape[1]));
  format::load_floats(expected.bytes.data(), expected.dtype, 0, golden.expected.size(),
                      golden.expected.data());
  EXPECT_TRUE(has_foreign_parts(golden.checkpoint));
  auto tensors = read_foreign(golden.checkpoint, golden.config, float32_scales);
  EXPECT_TRUE(tensors.ok()) << (tensors.ok() ? "" : tensors.error().message);
  if (!tensors.ok()) return golden;
  for (const SourceTensor& tensor : *tensors) {
    if (tensor.name == "m.weight") golden.matrix = tensor.matrix;
  }
  return golden;
}

/// The values that MLX's codes of a matrix mean, in float32.
std::vector<float> decoded_codes(const format::MatrixSource& matrix) {
  const format::CodeFormat format = *matrix.codes();
  const auto rows = static_cast<std::size_t>(matrix.rows());
  std::vector<std::byte> codes(rows * format::code_row_bytes(format.q, matrix.cols()));
  std::vector<std::byte> scales(rows * format::scale_row_bytes(format, matrix.cols())), biases(scales.size());
  const bool affine = format.q.mode == format::QuantMode::kAffine;
  matrix.read_codes(0, matrix.rows(), {codes.data(), scales.data(), affine ? biases.data() : nullptr});
  format::StoredMatrix stored{"m",           format::DType::kU32, true, format.q.bits, format.q.group,
                              matrix.rows(), matrix.cols()};
  stored.data = codes.data(), stored.scales = scales.data(), stored.biases = biases.data();
  stored.scale_dtype = format.scale_type, stored.mode = format.q.mode;
  std::vector<float> values(rows * static_cast<std::size_t>(matrix.cols()));
  if (affine) {
    format::dequantise_rows(stored, 0, matrix.rows(), values.data());
  } else {
    format::dequantise_block_rows(stored, 0, matrix.rows(), values.data());
  }
  return values;
}

double relative_error(const std::vector<float>& found, const std::vector<float>& wanted) {
  double error = 0, size = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    error += std::pow(static_cast<double>(found[i]) - static_cast<double>(wanted[i]), 2);
    size += std::pow(static_cast<double>(wanted[i]), 2);
  }
  return std::sqrt(error / size);
}

constexpr const char* kAll[] = {
    "gptq2",          "gptq3",        "gptq4",      "gptq8",         "gptq4-v2",        "gptq4-middle",
    "gptq4-permuted", "awq-gemm",     "awq-gemv",   "packed2",       "packed3",         "packed4",
    "packed5",        "packed6",      "packed8",    "packed4-zeros", "packed4-channel", "packed4-group16",
    "fp8-block",      "fp8-row",      "fp8-tensor", "fp8-powers",    "fp8-mx",          "fp4-divides",
    "fp4-folds",      "fp4-modelopt", "fp4-mx"};

TEST(ForeignModules, DecodeToWhatTheirLibrariesDecode) {
  for (const char* name : kAll) {
    const Golden golden = open(name);
    ASSERT_NE(golden.matrix, nullptr) << name;
    std::vector<float> values(golden.expected.size());
    golden.matrix->read(0, golden.matrix->rows(), values.data());
    EXPECT_EQ(values, golden.expected) << name;
    std::vector<float> middle(static_cast<std::size_t>(3 * golden.matrix->cols()));
    golden.matrix->read(5, 3, middle.data());
    EXPECT_TRUE(std::equal(middle.begin(), middle.end(), values.begin() + 5 * golden.matrix->cols())) << name;
  }
}

TEST(ForeignModules, CodesThatAreCalledExactDecodeToTheSameBits) {
  for (const char* name : {"gptq4-middle", "packed2", "packed3", "packed4", "packed5", "packed6", "packed8",
                           "packed4-channel", "fp8-powers", "fp8-mx", "fp4-folds", "fp4-mx"}) {
    const Golden golden = open(name);
    ASSERT_TRUE(golden.matrix->codes().has_value()) << name;
    EXPECT_TRUE(golden.matrix->codes()->exact) << name;
    EXPECT_EQ(decoded_codes(*golden.matrix), golden.expected) << name;
  }
}

TEST(ForeignModules, Float32ScalesMakeEveryGridExact) {
  for (const char* name :
       {"gptq2", "gptq3", "gptq4", "gptq8", "gptq4-v2", "awq-gemm", "awq-gemv", "packed4-zeros"}) {
    const Golden rounded = open(name);
    EXPECT_FALSE(rounded.matrix->codes()->exact) << name;
    EXPECT_LT(relative_error(decoded_codes(*rounded.matrix), rounded.expected), 0.01) << name;
    const Golden exact = open(name, true);
    EXPECT_TRUE(exact.matrix->codes()->exact) << name;
    EXPECT_EQ(exact.matrix->codes()->scale_type, format::DType::kF32);
    EXPECT_EQ(decoded_codes(*exact.matrix), exact.expected) << name;
  }
}

TEST(ForeignModules, WhatMlxCannotHoldHasNoCodes) {
  for (const char* name : {"gptq4-permuted", "packed4-group16", "fp8-block", "fp8-row", "fp8-tensor",
                           "fp4-divides", "fp4-modelopt"}) {
    EXPECT_FALSE(open(name).matrix->codes().has_value()) << name;
  }
}

ForeignConfig of_method(const std::string& method) {
  ForeignConfig config;
  config.method = method;
  return config;
}

TEST(ForeignModules, RefuseShapesAndLayoutsByName) {
  format::TemporaryFolder folder;
  const auto message = [&](const std::vector<format::Piece>& pieces, const ForeignConfig& config) {
    folder.write("model.safetensors", format::safetensors_file(pieces));
    const format::Checkpoint checkpoint = *format::Checkpoint::open(folder.path());
    auto read = read_foreign(checkpoint, config, false);
    return read.ok() ? std::string("read") : read.error().message;
  };
  const format::Piece codes{"m.qweight", "I32", "[4,8]", std::string(128, 'x')};
  ForeignConfig gptq = of_method("gptq");
  EXPECT_NE(message({codes}, gptq).find("'.scales' and '.qzeros' next to it"), std::string::npos);
  const format::Piece zeros{"m.qzeros", "I32", "[1,1]", std::string(4, 'x')};
  const format::Piece scales{"m.scales", "F16", "[1,7]", std::string(14, 'x')};
  gptq.group = -1;
  EXPECT_NE(message({codes, zeros, scales}, gptq).find("floats [1,8]"), std::string::npos);
  gptq.version = "marlin";
  EXPECT_NE(message({codes, zeros, scales}, gptq).find("layout 'marlin'"), std::string::npos);
  ForeignConfig awq = of_method("awq");
  awq.version = "gemv_fast";
  EXPECT_NE(message({codes, zeros, scales}, awq).find("layout 'gemv_fast'"), std::string::npos);
  const format::Piece small{"m.weight", "F8_E4M3", "[2,4]", std::string(8, 'x')};
  const format::Piece odd{"m.weight_scale_inv", "F32", "[3,1]", std::string(12, 'x')};
  EXPECT_NE(message({small, odd}, of_method("fp8")).find("a scale for each block"), std::string::npos);
}

}  // namespace
}  // namespace ft::convert::modules_test
