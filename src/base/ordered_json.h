// JSON of clients into a tree that keeps the order of keys, in time that grows with the text and the
// logarithm of the keys of an object.
#pragma once

#include <cstddef>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>

namespace ft {

struct OrderedJson {
  enum class Problem {
    kNone,
    kSyntax,
    kNumber,
    kKeys
  };  // kNumber: out of range; kKeys: too many in an object
  nlohmann::ordered_json value;  // discarded if there is a problem
  Problem problem = Problem::kNone;
  std::size_t byte = 0;  // where the syntax is wrong, from 1
};

/// A key that an object repeats keeps its first place and its last value.
OrderedJson read_ordered_json(std::string_view text,
                              std::size_t max_keys = std::numeric_limits<std::size_t>::max());

}  // namespace ft
