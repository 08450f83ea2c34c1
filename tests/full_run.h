// Whether tests run in full (FORETOKEN_FULL): docs/testing.md lists those that are smaller otherwise.
#pragma once

#include <cstdlib>

namespace ft::test {

inline bool full_run() { return std::getenv("FORETOKEN_FULL") != nullptr; }

}  // namespace ft::test
