// Takes the MTP head out of a checkpoint, as a sidecar in the published form: names "mtp.*", matrices byte
// for byte, norms final in float32. Errors: kNotFound without a head, kUnsupported for a head in codes that
// are not MLX's; as SafetensorsWriter.
#pragma once

#include <cstdint>
#include <string>

#include "format/checkpoint.h"
#include "format/config_files.h"

namespace ft::convert {

struct WrittenHead {
  int tensors = 0;
  std::uint64_t bytes = 0;
};

/// `norm_offset` is added to the norms: 1 where the checkpoint stores them around zero.
Result<WrittenHead> write_head(const format::Checkpoint& from, float norm_offset, const std::string& path);

/// A checkpoint of a foreign quantiser, made loadable for the checks of its head: plain tensors are
/// unchanged, the head's matrices are decoded to bf16, and all others read as zeros and take no memory. The
/// files are its configuration without the quantiser. Errors: as open_source.
struct DecodedHead {
  format::ConfigFiles files;
  format::Checkpoint checkpoint;
};
Result<DecodedHead> decode_head(const std::string& directory);

}  // namespace ft::convert
