// StopMatcher: finds stop strings in an answer that arrives in pieces. It holds back text that may become
// one, so that no part of a stop string is ever shown. Rule: the stop string that ends first in the text
// wins; of several with the same end, the longest, then the first listed. It is removed with everything after
// it. The rule depends only on characters, so every split of the text gives the same result. Cost: O(bytes),
// amortised (Aho-Corasick); it holds less than the longest stop string. create() refuses too many, too long,
// or empty stop strings.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ft {

inline constexpr size_t kMaxStops = 64;
inline constexpr size_t kMaxStopBytes = 1024;  // per stop string

class StopMatcher {
 public:
  struct Piece {
    std::string text;             // safe to show
    std::optional<size_t> match;  // index of the stop string that ended the answer
  };

  static Result<StopMatcher> create(const std::vector<std::string>& stops);

  /// After a match, further text is discarded.
  Piece push(std::string_view text);

  /// Ends the answer and returns the text that was held back.
  std::string flush();

  bool matched() const { return matched_; }

 private:
  struct Node {                      // a prefix of some stop string
    std::vector<uint32_t> children;  // nodes
    char byte = 0;                   // last byte of the prefix
    uint32_t depth = 0;              // bytes in the prefix
    uint32_t fallback = 0;           // node of its longest proper suffix that is also a prefix
    std::optional<size_t> stop;      // the longest stop string that ends here
    uint32_t stop_bytes = 0;
  };
  using Nodes = std::vector<Node>;

  StopMatcher() = default;
  static std::optional<uint32_t> child(const Nodes& nodes, uint32_t node, char byte);
  static void link_fallbacks(Nodes& nodes);

  std::shared_ptr<const Nodes> nodes_;
  uint32_t at_ = 0;   // node of the longest prefix that ends the text so far
  std::string held_;  // the bytes of that prefix
  bool matched_ = false;
};

}  // namespace ft
