#include "models/captured_layers.h"

#include <algorithm>
#include <fmt/format.h>
#include <functional>
#include <utility>

namespace ft {

void LayerCaptures::after(int layer, Row x) {
  for (std::size_t i = 0; i < wanted_.size(); ++i) {
    const std::vector<int>& layers = wanted_[i].layers;
    if (std::ranges::find(layers, layer) == layers.end()) continue;
    rows_[i] = rows_[i].id < 0 ? x : program_.concat(rows_[i], x);
    if (layer == layers.back()) program_.capture(wanted_[i].name, rows_[i]);
  }
}

Status check_layers(const CapturedLayers& wanted, int layers) {
  const auto wrong = [](std::string what) { return Error{Code::kInvalid, std::move(what)}; };
  if (wanted.layers.empty()) return wrong("it names no layer of its target");
  if (std::ranges::adjacent_find(wanted.layers, std::greater_equal<>()) != wanted.layers.end())
    return wrong("the layers of its target are not in ascending order");
  if (wanted.layers.front() < -1 || wanted.layers.back() >= layers) {
    return wrong(
        fmt::format("it reads layer {} of a target that has the layers 0 to {}; use it with its own target",
                    wanted.layers.front() < -1 ? wanted.layers.front() : wanted.layers.back(), layers - 1));
  }
  return {};
}

}  // namespace ft
