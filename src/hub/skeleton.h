// A repository without its weights: a folder with the small files, and weight files with their size, their
// header and the requested ranges. The rest of a weight file is a hole that takes no room and reads as zeros,
// so the folder loads like any other. Complete files are checked by their hash. Errors: as HubClient and
// choose_files; kCorrupt for a weight file without a safetensors header; kIo for the folder.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "format/tensor.h"
#include "hub/choice.h"
#include "hub/client.h"

namespace ft::hub {

struct ByteRange {
  std::int64_t first = 0, bytes = 0;  // of the tensor's data
};
/// The ranges of a tensor that are needed; none: it stays a hole.
using WantedRanges = std::function<std::vector<ByteRange>(const format::TensorView& tensor)>;

struct Skeleton {
  std::string commit;
  std::vector<RemoteFile> weights;                // the files with headers
  std::int64_t fetched_bytes = 0, all_bytes = 0;  // of them and the small files: over the network, and in all
};

/// `folder` exists. The settings' offline mode is refused: every byte comes from the network.
Result<Skeleton> fetch_skeleton(const HubSettings& settings, Transport& transport, const Pace& pace,
                                PullEvents& events, const Repository& repository, const std::string& folder,
                                const WantedRanges& wanted);

}  // namespace ft::hub
