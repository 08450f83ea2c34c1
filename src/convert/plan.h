// Plan: every tensor of the result, its source, its treatment and its file, made
// from headers alone. The same source and recipe give the same plan, and a plan gives the same bytes whatever
// the threads. Cost: some string work per tensor.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "convert/recipe.h"
#include "convert/source.h"
#include "format/writer.h"

namespace ft::convert {

inline constexpr std::uint64_t kShardBytes = std::uint64_t{2} << 30;  // one tensor may be larger
inline constexpr const char* kHeadFile = "mtp.safetensors";

struct OutputTensor {
  enum class How {
    kCopy,       // bytes as they are
    kAddOne,     // 1 + w in float32
    kEncode,     // new codes
    kMoveCodes,  // the source's codes
    kDecode,     // decoded values, in `type`
  };
  std::string name;                 // "language_model.model.layers.0.mlp.gate_proj.weight"
  std::vector<std::int64_t> shape;  // of the values
  How how = How::kCopy;
  format::Quantisation q = {};                 // kEncode, kMoveCodes
  format::DType type = format::DType::kBF16;   // of values, or of scales and biases
  const format::TensorView* stored = nullptr;  // kCopy
  format::MatrixPointer matrix = nullptr;      // otherwise
  bool exact = true;                           // kMoveCodes, kDecode: no value changes
  std::uint64_t source_bytes = 0;              // read for it, for the progress

  bool quantised() const { return how == How::kEncode || how == How::kMoveCodes; }
  std::string module() const;  // the name without ".weight"
  std::vector<format::TensorSpec> specs() const;
  std::uint64_t bytes() const;
};

struct OutputFile {
  std::string name;
  std::vector<OutputTensor> tensors;  // in model order
};

struct Plan {
  const ConversionNames* names = nullptr;  // of the family
  std::vector<OutputFile> files;           // the shards, then mtp.safetensors if there is an MTP head
  std::uint64_t source_bytes = 0, bytes = 0;
  std::int64_t parameters = 0;
  format::Quantisation base;  // of most parameters
  bool has_head = false, has_vision = false;
  bool head_norms_final = false;   // 1 is added to the norms of the MTP head
  std::vector<std::string> notes;  // one sentence for each kind of loss
  std::string fingerprint;         // of everything that decides the bytes
};

Result<Plan> make_plan(const Source& source, const Recipe& recipe, std::uint64_t shard_bytes = kShardBytes);

}  // namespace ft::convert
