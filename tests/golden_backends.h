// The backends that goldens of drafters run on: ref, cpu, the emulated device of cuda, and a GPU if there is
// one. For tests; header-only.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backends/cuda/test_devices.h"
#include "backends/registry.h"

namespace ft::test {

inline std::vector<const char*> golden_backends() {
  std::vector<const char*> names = {"ref", "cpu"};
  if (cuda_devices().front() == "emulated") names.push_back("emulated");  // it has offered itself
  names.push_back("auto");
  return names;
}

inline bool on_cuda(std::string_view name) { return name != "ref" && name != "cpu"; }
/// In the names of tests.
inline std::string name_of(std::string_view name) { return name == "auto" ? "gpu" : std::string(name); }

/// Tests of a missing device are skipped before (why_not).
inline std::unique_ptr<Backend> backend_of(const std::string& name) {
  if (on_cuda(name)) return std::move(cuda_on(name).value());
  return std::move(make_backend({.name = name, .threads = 1}).value());
}

}  // namespace ft::test
