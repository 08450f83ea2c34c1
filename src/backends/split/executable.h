// Runs the stages of a program (stages.h) one after the other, each on its part, and carries the rows that
// cross: they stay in a part's memory where the same part reads them, and go through the host where another
// one does. A stage is submitted as soon as its rows are there, so a part with a device computes while the
// host copies or computes. Owner: the caller of compile. Thread: the engine thread. Cost: a wait for each
// border that rows leave. Errors: the parts' own; BackendLost names the part.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backends/split/stages.h"
#include "program/backend.h"

namespace ft::split {

/// A part as an executable sees it; the backend must outlive it.
struct PartOf {
  std::string name;  // "device 1 (cuda)"
  Backend* backend = nullptr;
};

/// `split_state`: steps come with a SplitState, else with a state of the part that answers.
Result<std::unique_ptr<Executable>> make_executable(Stages stages, std::vector<PartOf> parts,
                                                    const CompileOptions& options, bool split_state);

}  // namespace ft::split
