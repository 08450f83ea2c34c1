// Runs a program on all ranks at once (ranks.h): each rank's thread submits its stages and exchanges rows in
// between. With a cut LM head, ranks leave their logits to the host, which samples; else the first rank
// answers. Owner: the caller of compile; the backends and the group must outlive it. Thread: the engine
// thread. Cost: a wait of each rank at every exchange. Errors: the ranks' own; BackendLost names one.
#pragma once

#include <memory>
#include <vector>

#include "backends/split/executable.h"
#include "backends/split/rank_group.h"
#include "backends/split/ranks.h"

namespace ft::split {

/// Steps come with a SplitState, which has a part for each rank.
Result<std::unique_ptr<Executable>> make_tensor_executable(Ranks ranks, std::vector<PartOf> parts,
                                                           RankGroup& group, const CompileOptions& options);

}  // namespace ft::split
