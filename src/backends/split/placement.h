// Which part of a machine has which instructions, layers and experts of a program. A part is a backend: a
// GPU, or the processors. A layer lies between two borders where few rows are alive, and has one attention or
// one recurrence; so only the residual row crosses a border. Owner: the caller. Thread: any. Cost: a few
// passes over the list.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "program/program.h"

namespace ft::split {

/// The part of each instruction, by its number in the program.
struct Placement {
  std::vector<int> part_of;
  int parts = 1;
};

/// Where a layer begins in the list, and the bytes of its weights. The first one has the embedding, the last
/// one the LM head.
struct Layer {
  int first = 0;
  std::int64_t bytes = 0;
};
std::vector<Layer> layers_of(const Program& program);

/// `counts[p]` consecutive layers for part p, in order; together all of them, each at least one.
/// kUnsupported: a layer reads keys and values that another part has.
Result<Placement> place_layers(const Program& program, std::span<const int> counts);
/// Part 1 has the routed experts of the first `layers` layers that have some (below 0: of all layers), part 0
/// all else.
Placement place_experts(const Program& program, int layers);
/// Layers for parts of this free memory: each takes its share of them, by bytes, so that keys and values find
/// room everywhere. kExhausted: they do not fit.
Result<std::vector<int>> share_layers(std::span<const Layer> layers,
                                      std::span<const std::int64_t> free_bytes);

/// Bytes of weights of the instructions that a part has.
std::int64_t bytes_on(const Program& program, const Placement& placement, int part);

/// The state of a program by part: the layout of each, and where each cache, window and recurrence of the
/// whole is.
struct StatePlace {
  int part = 0, index = 0;
};
struct SplitLayout {
  std::vector<StateLayout> parts;
  std::vector<StatePlace> caches, conv_states, deltas;
};
SplitLayout split_layout(const Program& program, const Placement& placement);
bool same_layout(const StateLayout& a, const StateLayout& b);
bool is_empty(const StateLayout& layout);

}  // namespace ft::split
