#include "backends/cpu/features.h"

#include <fmt/format.h>

namespace ft::cpu {

std::vector<const Kernels*> available_kernels() {
  std::vector<const Kernels*> found;
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool has_avx2 =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  const bool has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f") &&
                          __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                          __builtin_cpu_supports("avx512dq");
  if (has_avx512 && __builtin_cpu_supports("avx512vnni")) found.push_back(&avx512vnni::kernels());
  if (has_avx512) found.push_back(&avx512::kernels());
  if (has_avx2 && __builtin_cpu_supports("avxvnni")) found.push_back(&avxvnni::kernels());
  if (has_avx2) found.push_back(&avx2::kernels());
#elif defined(__aarch64__)
  found.push_back(&neon::kernels());
#endif
  found.push_back(&portable::kernels());
  return found;
}

Result<const Kernels*> choose_kernels(const std::string& isa) {
  const std::vector<const Kernels*> found = available_kernels();
  if (isa == "auto" || isa.empty()) return found.front();
  std::string names = "auto";
  for (const Kernels* kernels : found) {
    if (isa == kernels->name) return kernels;
    names += fmt::format(", {}", kernels->name);
  }
  return Error{
      Code::kUnsupported,
      fmt::format("cpu backend: instruction set '{}' is unknown or not on this machine; use one of {}", isa,
                  names)};
}

}  // namespace ft::cpu
