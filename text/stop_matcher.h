// StopMatcher: finds stop strings in an answer that arrives in pieces, and holds back whatever may still
// become one, so that no part of a stop string is ever shown. Rule: the stop string that is complete first
// wins (it ends earliest in the text); of several that end at the same place, the longest, then the one
// listed first. It is removed with everything after it. The rule looks at characters only, so every split of
// the text gives the same result. Owner: one answer. Thread: one. Cost: O(bytes), amortised (Aho-Corasick);
// holds less than the longest stop string. Errors: create() refuses too many, too long or empty stop strings.
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
inline constexpr size_t kMaxStopBytes = 1024;  // of one stop string

class StopMatcher {
 public:
  struct Piece {
    std::string text;             // safe to show
    std::optional<size_t> match;  // index of the stop string that ended the answer
  };

  static Result<StopMatcher> create(const std::vector<std::string>& stops);

  /// After a match, further text is swallowed.
  Piece push(std::string_view text);

  /// The answer ended: what was held back is shown after all.
  std::string flush();

  bool matched() const { return matched_; }

 private:
  struct Node {                      // a prefix of some stop string
    std::vector<uint32_t> children;  // nodes
    char byte = 0;                   // the last of the prefix
    uint32_t depth = 0;              // bytes of the prefix
    uint32_t fallback = 0;           // the node of its longest proper suffix that is a prefix too
    std::optional<size_t> stop;      // the longest stop string that ends here
    uint32_t stop_bytes = 0;
  };
  using Nodes = std::vector<Node>;

  StopMatcher() = default;
  static std::optional<uint32_t> child(const Nodes& nodes, uint32_t node, char byte);
  static void link_fallbacks(Nodes& nodes);

  std::shared_ptr<const Nodes> nodes_;
  uint32_t at_ = 0;   // the longest prefix that the text so far ends with
  std::string held_;  // exactly those bytes
  bool matched_ = false;
};

}  // namespace ft
