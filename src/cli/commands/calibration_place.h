// The path of the calibration cache (sched/calibration/calibration_cache.h) and its key, which covers
// everything that the costs depend on: instructions of model and MTP head with shapes and formats of their
// weights (not the values), backend, instruction set, activations, threads, mapping of the weights, processor
// and this program. Slots and context are not part of it: costs are for one slot with a short past.
// Without a path, calibration runs at each start.
#pragma once

#include <string>

#include "models/model.h"
#include "program/backend.h"
#include "sched/calibration/calibration_cache.h"

namespace ft::cli {

/// `choice`: auto (the folder of --packed-weights auto), measure or a folder. An empty path: nothing is
/// cached.
CalibrationCacheOptions calibration_place(const std::string& choice, const Model& model,
                                          const Backend& backend, bool mapped);

}  // namespace ft::cli
