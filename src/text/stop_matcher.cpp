#include "text/stop_matcher.h"

#include <utility>

namespace ft {

Result<StopMatcher> StopMatcher::create(const std::vector<std::string>& stops) {
  if (stops.size() > kMaxStops) {
    return Error{Code::kInvalid, "stop: " + std::to_string(stops.size()) +
                                     " strings are more than the limit of " + std::to_string(kMaxStops) +
                                     "; give fewer"};
  }
  Nodes nodes(1);
  for (size_t i = 0; i < stops.size(); ++i) {
    if (stops[i].empty() || stops[i].size() > kMaxStopBytes) {
      return Error{Code::kInvalid, "stop[" + std::to_string(i) + "] has " + std::to_string(stops[i].size()) +
                                       " bytes; give 1 to " + std::to_string(kMaxStopBytes)};
    }
    uint32_t node = 0;
    for (const char byte : stops[i]) {
      auto next = child(nodes, node, byte);
      if (!next) {
        next = static_cast<uint32_t>(nodes.size());
        nodes[node].children.push_back(*next);
        const uint32_t depth = nodes[node].depth + 1;
        nodes.push_back(Node{{}, byte, depth, 0, std::nullopt, 0});
      }
      node = *next;
    }
    if (!nodes[node].stop) {
      nodes[node].stop = i;
      nodes[node].stop_bytes = nodes[node].depth;
    }
  }
  link_fallbacks(nodes);
  StopMatcher matcher;
  matcher.nodes_ = std::make_shared<const Nodes>(std::move(nodes));
  return matcher;
}

std::optional<uint32_t> StopMatcher::child(const Nodes& nodes, uint32_t node, char byte) {
  for (const uint32_t next : nodes[node].children) {
    if (nodes[next].byte == byte) {
      return next;
    }
  }
  return std::nullopt;
}

void StopMatcher::link_fallbacks(Nodes& nodes) {
  std::vector<uint32_t> queue = {0};  // breadth first: fallbacks are shallower, so they are ready
  for (size_t head = 0; head < queue.size(); ++head) {
    const uint32_t node = queue[head];
    for (const uint32_t next : nodes[node].children) {
      queue.push_back(next);
      if (node == 0) {
        continue;
      }
      uint32_t back = nodes[node].fallback;
      while (back != 0 && !child(nodes, back, nodes[next].byte)) {
        back = nodes[back].fallback;
      }
      back = child(nodes, back, nodes[next].byte).value_or(0);
      nodes[next].fallback = back;
      if (!nodes[next].stop) {
        nodes[next].stop = nodes[back].stop;
        nodes[next].stop_bytes = nodes[back].stop_bytes;
      }
    }
  }
}

StopMatcher::Piece StopMatcher::push(std::string_view text) {
  Piece piece;
  if (matched_) {
    return piece;
  }
  const Nodes& nodes = *nodes_;
  for (const char byte : text) {
    auto next = child(nodes, at_, byte);
    while (!next && at_ != 0) {
      at_ = nodes[at_].fallback;
      next = child(nodes, at_, byte);
    }
    at_ = next.value_or(0);
    held_ += byte;
    if (nodes[at_].stop) {
      matched_ = true;
      piece.match = nodes[at_].stop;
      piece.text.append(held_, 0, held_.size() - nodes[at_].stop_bytes);
      held_.clear();
      return piece;
    }
    if (at_ == 0) {  // fast path: no held bytes to move
      piece.text += held_;
      held_.clear();
    }
  }
  const size_t safe = held_.size() - nodes[at_].depth;
  piece.text.append(held_, 0, safe);
  held_.erase(0, safe);
  return piece;
}

std::string StopMatcher::flush() {
  at_ = 0;
  return std::exchange(held_, {});
}

}  // namespace ft
