// One model on several backends of this machine: consecutive layers on each (--split layers), or the routed
// experts on the processors and all else on a GPU (--experts cpu). Each part computes as its backend does
// alone, so the parts' arithmetic decides the tokens, for any number of rows; parts of one backend give the
// bits of that backend. Programs that are not divided (drafters, towers of images), hidden rows and samples
// are on the part that answers, as that backend's own objects. Owner: the caller. Thread: the engine thread.
// Errors: a division that is impossible or does not fit, then the parts' errors.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backends/options.h"
#include "backends/split/placement.h"

namespace ft::split {

struct Part {
  std::string name;  // "cuda:0"
  std::unique_ptr<Backend> backend;
};

/// `counts`: layers of each part; empty: by free memory (`host_bytes`: of the machine, for parts without
/// their own; 0: unknown, then parts share evenly). `target`: the program that is divided.
Result<std::unique_ptr<Backend>> by_layers(std::vector<Part> parts, std::vector<int> counts,
                                           const Program& target, std::int64_t host_bytes);
/// The routed experts of the first `layers` layers are on `experts`; below 0: those of all layers.
Result<std::unique_ptr<Backend>> with_experts(Part main, Part experts, int layers);

/// A backend made by one of these functions or by by_ranks() (tensor.h).
class Division : public Backend {
 public:
  /// A line for each part: its name, its share of the program, bytes of weights and free memory.
  virtual Result<std::vector<std::string>> division(const Program& program) const = 0;
};

}  // namespace ft::split
