// Which backends this build has and this machine can run. The names are those of `--backend`.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "program/backend.h"

namespace ft {

struct BackendOptions {
  std::string name = "auto";  // auto, cpu, ref
  int threads = 0;            // 0: one per core
  std::string isa = "auto";   // cpu: auto, avx512vnni, avx512, avxvnni, avx2, neon..., portable
  int activations = 0;        // cpu: bits of quantised activations, 8 or 16; 0: the default
};

/// Error kUnsupported if the machine cannot run it, kInvalid with the list of names if there is no such
/// backend.
Result<std::unique_ptr<Backend>> make_backend(const BackendOptions& options);
std::vector<std::string> backend_names();

}  // namespace ft
