#include "models/expert_weights.h"

#include <fmt/format.h>

namespace ft {
namespace {

/// The first or the second half of the rows of each matrix.
std::vector<Weight> half(const std::vector<Weight>& fused, std::int64_t first, std::int64_t rows) {
  std::vector<Weight> parts;
  parts.reserve(fused.size());
  for (const Weight& weight : fused) parts.push_back(rows_of(weight, first, rows, weight.name));
  return parts;
}

ExpertWeights read_each(WeightSource& source, const ExpertNames& names, const ExpertSizes& sizes) {
  ExpertWeights found;
  for (int e = 0; e < sizes.experts; ++e) {
    if (e > 0 && source.failed()) return found;  // a config may name very many
    source.set_context(fmt::format("{}, expert {}", names.layer, e));
    const std::string name = fmt::format("{}{}.", names.each, e);
    found.gate.push_back(source.matrix(name + "gate_proj", sizes.size, sizes.hidden));
    found.up.push_back(source.matrix(name + "up_proj", sizes.size, sizes.hidden));
    found.down.push_back(source.matrix(name + "down_proj", sizes.hidden, sizes.size));
  }
  if (source.has(fmt::format("{}{}.gate_proj", names.each, sizes.experts))) {
    source.set_context(fmt::format("{}, expert {}", names.layer, sizes.experts));
    source.fail({Code::kCorrupt,
                 fmt::format("expected experts 0 to {}, as config.json says, found more; the checkpoint does "
                             "not fit its config.json: download both again",
                             sizes.experts - 1)});
  }
  return found;
}

/// Kernels take a list of matrices of one format.
void check_alike(WeightSource& source, const ExpertNames& names, const std::vector<Weight>& list) {
  for (std::size_t e = 1; e < list.size(); ++e) {
    if (stored_alike(list[e], list[0])) continue;
    source.set_context(fmt::format("{}, expert {}", names.layer, e));
    source.fail({Code::kUnsupported,
                 fmt::format("{}: expected the format of expert 0, found another; quantise the experts of a "
                             "layer alike",
                             list[e].name)});
    return;
  }
}

}  // namespace

ExpertLayout expert_layout(const WeightSource& source, const ExpertNames& names) {
  if (source.has(names.stacks + "gate_proj")) return ExpertLayout::kStacks;
  const bool each = source.has(names.each + "0.gate_proj") || source.has(names.each + "0.down_proj");
  return each ? ExpertLayout::kEach : ExpertLayout::kFused;
}

std::vector<HeadTensor> expert_tensors(ExpertLayout layout, const ExpertNames& names,
                                       const ExpertSizes& sizes) {
  const auto tensor = [](std::string name, std::int64_t rows, std::int64_t cols, int stack) {
    return HeadTensor{std::move(name), HeadTensor::Kind::kMatrix, rows, cols, stack};
  };
  const int experts = sizes.experts;
  if (layout == ExpertLayout::kFused) {
    return {tensor(names.fused + "gate_up_proj", 2 * sizes.size, sizes.hidden, experts),
            tensor(names.fused + "down_proj", sizes.hidden, sizes.size, experts)};
  }
  std::vector<HeadTensor> list;
  const int copies = layout == ExpertLayout::kEach ? experts : 1;
  for (int e = 0; e < copies; ++e) {
    const bool stacked = layout == ExpertLayout::kStacks;
    const std::string name = stacked ? names.stacks : fmt::format("{}{}.", names.each, e);
    for (const char* leaf : {"gate_proj", "up_proj"})
      list.push_back(tensor(name + leaf, sizes.size, sizes.hidden, stacked ? experts : 0));
    list.push_back(tensor(name + "down_proj", sizes.hidden, sizes.size, stacked ? experts : 0));
  }
  return list;
}

ExpertWeights read_experts(WeightSource& source, const ExpertNames& names, const ExpertSizes& sizes) {
  ExpertWeights found;
  source.set_context(names.layer);
  switch (expert_layout(source, names)) {
    case ExpertLayout::kFused: {
      const auto both =
          source.stack(names.fused + "gate_up_proj", sizes.experts, 2 * sizes.size, sizes.hidden);
      found.gate = half(both, 0, sizes.size);
      found.up = half(both, sizes.size, sizes.size);
      found.down = source.stack(names.fused + "down_proj", sizes.experts, sizes.hidden, sizes.size);
      break;
    }
    case ExpertLayout::kStacks:
      found.gate = source.stack(names.stacks + "gate_proj", sizes.experts, sizes.size, sizes.hidden);
      found.up = source.stack(names.stacks + "up_proj", sizes.experts, sizes.size, sizes.hidden);
      found.down = source.stack(names.stacks + "down_proj", sizes.experts, sizes.hidden, sizes.size);
      break;
    case ExpertLayout::kEach:
      found = read_each(source, names, sizes);
      for (const auto* list : {&found.gate, &found.up, &found.down}) check_alike(source, names, *list);
      break;
  }
  source.set_context("");
  return found;
}

}  // namespace ft
