// Programs and tokens for Metal's tests of whole programs.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "backends/test_programs.h"
#include "program/backend.h"

namespace ft {

/// Ids of positions `first` to `first + count` of a text.
inline std::vector<std::int32_t> tokens_of(const TestShape& shape, int first, int count) {
  std::vector<std::int32_t> tokens;
  for (int i = first; i < first + count; ++i) tokens.push_back(i * 31 % shape.vocabulary);
  return tokens;
}

struct Made {
  std::unique_ptr<Executable> executable;
  std::unique_ptr<State> state;
};

}  // namespace ft
