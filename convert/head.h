// Takes the MTP head out of a checkpoint, as a sidecar in the published form: names "mtp.*", matrices byte
// for byte, norms final in float32. Errors: kNotFound without a head, kUnsupported for a head in codes that
// are not MLX's, those of SafetensorsWriter.
#pragma once

#include <cstdint>
#include <string>

#include "format/checkpoint.h"

namespace ft::convert {

struct WrittenHead {
  int tensors = 0;
  std::uint64_t bytes = 0;
};

/// `norm_offset` is added to the norms: 1 where the checkpoint stores them around zero.
Result<WrittenHead> write_head(const format::Checkpoint& from, float norm_offset, const std::string& path);

}  // namespace ft::convert
