// A model folder in memory: its config and tensors can be changed and written again as one file. For tests of
// broken models; header-only. Copies all tensors.
#pragma once

#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "format/checkpoint.h"
#include "format/model_fixture.h"

namespace ft::test {

inline constexpr const char* kOddModel = "tests/golden/odd";

class CopiedModel {
 public:
  struct Tensor {
    format::DType dtype = format::DType::kF32;
    std::vector<std::int64_t> shape;
    std::string data;
  };

  explicit CopiedModel(const std::string& directory) {
    const auto checkpoint = format::Checkpoint::open(directory);
    EXPECT_TRUE(checkpoint.ok()) << (checkpoint.ok() ? "" : checkpoint.error().message);
    for (const format::TensorView& tensor : checkpoint->tensors()) {
      tensors[tensor.name] = {
          tensor.dtype, tensor.shape,
          std::string(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size())};
    }
    metadata = "{\"format\":\"" + checkpoint->metadata_format() + "\"}";
    std::ifstream file(directory + "/config.json");
    std::stringstream text;
    text << file.rdbuf();
    config = text.str();
  }

  /// Replaces the first occurrence in config.json; the test fails if it is missing.
  void edit(const std::string& from, const std::string& to) {
    const std::size_t at = config.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    config.replace(at, from.size(), to);
  }

  void erase_prefix(const std::string& prefix) {
    std::erase_if(tensors, [&](const auto& entry) { return entry.first.starts_with(prefix); });
  }

  /// The same values as float32, each with `add` added.
  void to_float(const std::string& name, float add) {
    Tensor& tensor = tensors.at(name);
    std::vector<float> values(tensor.data.size() / format::dtype_bytes(tensor.dtype));
    format::load_floats(reinterpret_cast<const std::byte*>(tensor.data.data()), tensor.dtype, 0,
                        values.size(), values.data());
    for (float& value : values) value += add;
    tensor.dtype = format::DType::kF32;
    tensor.data = format::floats(values);
  }

  /// The written folder; it exists as long as this object.
  std::string write() {
    std::vector<format::Piece> pieces;
    for (const auto& [name, tensor] : tensors) {
      pieces.push_back({name, std::string(format::dtype_name(tensor.dtype)), format::shape_text(tensor.shape),
                        tensor.data});
    }
    folder_.write("config.json", config);
    folder_.write("model.safetensors", format::safetensors_file(pieces, metadata));
    return folder_.path();
  }
  const format::TemporaryFolder& folder() const { return folder_; }

  std::map<std::string, Tensor> tensors;
  std::string config, metadata;

 private:
  format::TemporaryFolder folder_;
};

}  // namespace ft::test
