// Where what rounds cost is remembered (sched/cost_file.h), and the key of everything it depends on: the
// instructions of model and head with the shapes and formats of their weights (the values do not matter), the
// backend with instruction set, activations and threads, whether the weights are mapped, the processor, and
// this very program. Slots and context are not in it: costs are those of one slot with a short past. Thread:
// any. Cost: a few files of /proc and the programs as text, about a millisecond. Errors: none; without a
// place costs are measured.
#pragma once

#include <string>

#include "models/model.h"
#include "program/backend.h"
#include "sched/cost_file.h"

namespace ft::cli {

/// `choice`: auto (the folder that --prepared auto names), measure or a folder. No path: nothing is
/// remembered.
CostFileOptions cost_place(const std::string& choice, const Model& model, const Backend& backend,
                           bool mapped);

}  // namespace ft::cli
