// The lines of `doctor` on threads: the number that the cpu backend has and why, and the number that the
// calibration of a model chose for small steps.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/topology.h"
#include "lab/machine.h"
#include "models/model.h"
#include "program/backend.h"

namespace ft::cli {

/// `asked`: --threads; 0: `usual` ones, one for each core of `workers` or fewer. `allowed`: the hardware
/// threads that this process may use.
Finding threads_finding(int asked, int usual, std::span<const Core> allowed, std::span<const Core> workers);

/// For a backend whose number of workers can be chosen. `now_s`: seconds since 1970.
void check_workers(const Model& model, const Backend& backend, std::int64_t now_s,
                   std::vector<Finding>& findings);

}  // namespace ft::cli
