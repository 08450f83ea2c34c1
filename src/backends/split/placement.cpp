#include "backends/split/placement.h"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>

namespace ft::split {
namespace {

bool begins_state(const Instruction& instruction) {
  return std::holds_alternative<Attention>(instruction) || std::holds_alternative<DeltaRule>(instruction);
}

/// Width of the rows that are alive before each instruction.
std::vector<std::int64_t> live_widths(const Program& program) {
  struct Uses final : Describer {
    explicit Uses(int rows) : first(static_cast<std::size_t>(rows), -1), last(first), width(first) {}
    void reads(Row row, int, Granularity) override {
      if (row.id >= 0) last[static_cast<std::size_t>(row.id)] = at;
    }
    void writes(Row row, int row_width, Granularity) override {
      first[static_cast<std::size_t>(row.id)] = at, width[static_cast<std::size_t>(row.id)] = row_width;
    }
    int at = 0;
    std::vector<int> first, last, width;
  } uses(program.row_count());
  for (const Instruction& instruction : program.instructions()) describe(instruction, uses), ++uses.at;
  std::vector<std::int64_t> live(program.instructions().size());
  for (std::size_t row = 0; row < uses.first.size(); ++row) {
    for (int at = uses.first[row] + 1; uses.first[row] >= 0 && at <= uses.last[row]; ++at)
      live[static_cast<std::size_t>(at)] += uses.width[row];
  }
  return live;
}

std::int64_t bytes_of_list(const Program& program, std::vector<Instruction> list) {
  return Program::part_of(program, {}, std::move(list)).bytes_held();
}

}  // namespace

std::vector<Layer> layers_of(const Program& program) {
  const auto& list = program.instructions();
  const std::vector<std::int64_t> live = live_widths(program);
  std::vector<Layer> layers(1);
  int before = -1;
  for (int at = 0; at < static_cast<int>(list.size()); ++at) {
    if (!begins_state(list[static_cast<std::size_t>(at)])) continue;
    if (before >= 0) {
      int best = before + 1;
      for (int i = best; i <= at; ++i) {
        if (live[static_cast<std::size_t>(i)] <= live[static_cast<std::size_t>(best)]) best = i;
      }
      layers.push_back({best, 0});
    }
    before = at;
  }
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const auto end = i + 1 < layers.size() ? list.begin() + layers[i + 1].first : list.end();
    layers[i].bytes = bytes_of_list(program, {list.begin() + layers[i].first, end});
  }
  return layers;
}

Result<Placement> place_layers(const Program& program, std::span<const int> counts) {
  const std::vector<Layer> layers = layers_of(program);
  const int all = std::accumulate(counts.begin(), counts.end(), 0);
  if (all != std::ssize(layers) || std::ranges::any_of(counts, [](int count) { return count < 1; })) {
    return Error{
        Code::kInvalid,
        fmt::format("{} devices with {} layers, and the model has {}; give each device at least one, "
                    "together all of them",
                    counts.size(), fmt::join(counts, " + "), layers.size())};
  }
  Placement placement{std::vector<int>(program.instructions().size()), static_cast<int>(counts.size())};
  std::size_t layer = 0;
  for (std::size_t part = 0; part < counts.size(); ++part) {
    const auto first = static_cast<std::size_t>(layers[layer].first);
    std::fill(placement.part_of.begin() + static_cast<std::ptrdiff_t>(first), placement.part_of.end(),
              static_cast<int>(part));
    layer += static_cast<std::size_t>(counts[part]);
  }
  std::vector<int> owner(program.layout().caches.size(), -1);
  for (std::size_t i = 0; i < placement.part_of.size(); ++i) {
    const auto* attend = std::get_if<Attention>(&program.instructions()[i]);
    if (attend == nullptr) continue;
    int& part = owner[static_cast<std::size_t>(attend->cache)];
    if (part < 0) part = placement.part_of[i];
    if (part == placement.part_of[i]) continue;
    return Error{Code::kUnsupported,
                 fmt::format("layers of device {} read keys and values that device {} has; give the layers "
                             "that share them to one device",
                             placement.part_of[i] + 1, part + 1)};
  }
  return placement;
}

Placement place_experts(const Program& program, int layers) {
  Placement placement{{}, 2};
  int found = 0;
  for (const Instruction& instruction : program.instructions()) {
    const bool away = std::holds_alternative<MoeMlp>(instruction) && (layers < 0 || found++ < layers);
    placement.part_of.push_back(away ? 1 : 0);
  }
  return placement;
}

Result<std::vector<int>> share_layers(std::span<const Layer> layers,
                                      std::span<const std::int64_t> free_bytes) {
  const auto parts = static_cast<std::ptrdiff_t>(free_bytes.size());
  if (std::ssize(layers) < parts) {
    return Error{Code::kInvalid,
                 fmt::format("{} devices for {} layers; name fewer devices", parts, layers.size())};
  }
  std::int64_t all = 0, room = 0;
  for (const Layer& layer : layers) all += layer.bytes;
  for (const std::int64_t bytes : free_bytes) room += bytes;
  // Each part takes its share of the free memory, so that keys and values find room everywhere.
  std::vector<int> counts;
  std::size_t next = 0;
  std::int64_t taken = 0, room_before = 0;
  for (std::ptrdiff_t part = 0; part < parts; ++part) {
    room_before += free_bytes[static_cast<std::size_t>(part)];
    const std::int64_t goal =
        static_cast<std::int64_t>(static_cast<double>(all) * static_cast<double>(room_before) /
                                  static_cast<double>(std::max<std::int64_t>(room, 1)));
    const std::size_t most = layers.size() - static_cast<std::size_t>(parts - part - 1);
    std::int64_t own = 0;
    int count = 0;
    while (next < most && (count == 0 || part + 1 == parts || taken + layers[next].bytes / 2 <= goal)) {
      own += layers[next].bytes, taken += layers[next].bytes;
      ++next, ++count;
    }
    if (own > free_bytes[static_cast<std::size_t>(part)]) {
      return Error{
          Code::kExhausted,
          fmt::format("{} layers take {:.1f} GB, and device {} has {:.1f} GB free; name more devices, "
                      "or a smaller model",
                      count, static_cast<double>(own) * 1e-9, part + 1,
                      static_cast<double>(free_bytes[static_cast<std::size_t>(part)]) * 1e-9)};
    }
    counts.push_back(count);
  }
  return counts;
}

std::int64_t bytes_on(const Program& program, const Placement& placement, int part) {
  std::vector<Instruction> own;
  for (std::size_t i = 0; i < placement.part_of.size(); ++i) {
    if (placement.part_of[i] == part) own.push_back(program.instructions()[i]);
  }
  return bytes_of_list(program, std::move(own));
}

SplitLayout split_layout(const Program& program, const Placement& placement) {
  const StateLayout& whole = program.layout();
  SplitLayout split;
  split.parts.resize(static_cast<std::size_t>(placement.parts));
  split.caches.resize(whole.caches.size(), {-1, 0});
  split.conv_states.resize(whole.conv_states.size(), {-1, 0});
  split.deltas.resize(whole.deltas.size(), {-1, 0});
  const auto add = [](const auto& from, auto member, auto& places, int number, int part, SplitLayout& to) {
    StatePlace& place = places[static_cast<std::size_t>(number)];
    if (place.part >= 0) return;
    auto& own = to.parts[static_cast<std::size_t>(part)].*member;
    place = {part, static_cast<int>(own.size())};
    own.push_back(from[static_cast<std::size_t>(number)]);
  };
  for (std::size_t i = 0; i < placement.part_of.size(); ++i) {
    const Instruction& instruction = program.instructions()[i];
    const int part = placement.part_of[i];
    if (const auto* attend = std::get_if<Attention>(&instruction))
      add(whole.caches, &StateLayout::caches, split.caches, attend->cache, part, split);
    if (const auto* conv = std::get_if<CausalConv1d>(&instruction))
      add(whole.conv_states, &StateLayout::conv_states, split.conv_states, conv->state, part, split);
    if (const auto* delta = std::get_if<DeltaRule>(&instruction))
      add(whole.deltas, &StateLayout::deltas, split.deltas, delta->state, part, split);
  }
  return split;
}

bool same_layout(const StateLayout& a, const StateLayout& b) {
  const auto cache = [](const StateLayout::Cache& x, const StateLayout::Cache& y) {
    return x.kv_heads == y.kv_heads && x.head_dim == y.head_dim && x.sliding_window == y.sliding_window &&
           x.transient == y.transient;
  };
  const auto conv = [](const StateLayout::ConvState& x, const StateLayout::ConvState& y) {
    return x.width == y.width && x.kernel_width == y.kernel_width;
  };
  const auto delta = [](const StateLayout::Delta& x, const StateLayout::Delta& y) {
    return x.key_heads == y.key_heads && x.value_heads == y.value_heads && x.key_dim == y.key_dim &&
           x.value_dim == y.value_dim;
  };
  return std::ranges::equal(a.caches, b.caches, cache) &&
         std::ranges::equal(a.conv_states, b.conv_states, conv) &&
         std::ranges::equal(a.deltas, b.deltas, delta);
}

bool is_empty(const StateLayout& layout) {
  return layout.caches.empty() && layout.conv_states.empty() && layout.deltas.empty();
}

}  // namespace ft::split
