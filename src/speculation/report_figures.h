// Figures computed from the reports of speculation (speculation/round.h), for all places that print them.
#pragma once

#include <vector>

#include "speculation/round.h"

namespace ft {

/// Mean number of tokens emitted per round.
double tokens_per_round(const SpeculationReport& report);
/// accepted / drafted for each draft position.
std::vector<double> acceptance_by_position(const SpeculationReport& report);
void add(SpeculationReport& sum, const SpeculationReport& more);

}  // namespace ft
