// Tensor parallelism (--split tensor): every device has a part of each layer, and all work at the same time.
// The bits equal one device's (ranks.h). Programs that do not share the target's timelines (drafters,
// towers of images), hidden rows and samples are on the first device. Owner: the caller. Thread: the engine
// thread. Errors: devices of different arithmetic, or without room for their part; then the parts' errors.
#pragma once

#include "backends/split/backend.h"
#include "backends/split/rank_group.h"

namespace ft::split {

/// `target`: the program that is cut.
Result<std::unique_ptr<Backend>> by_ranks(std::vector<Part> parts, const Program& target,
                                          RankGroupOptions options = {});

}  // namespace ft::split
