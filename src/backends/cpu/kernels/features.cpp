#include "backends/cpu/kernels/features.h"

#include <fmt/format.h>

#if defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#endif
#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#elif defined(__aarch64__) && defined(__APPLE__)
#include <sys/sysctl.h>
#endif

namespace ft::cpu {

#if defined(__aarch64__)
namespace {

#if defined(__linux__)
// Bits of the kernel's ABI (its Documentation/arch/arm64/elf_hwcaps.rst), as numbers because old C libraries
// lack the second name.
bool has_dotprod() { return (getauxval(AT_HWCAP) & (1UL << 20)) != 0; }
bool has_i8mm() { return (getauxval(AT_HWCAP2) & (1UL << 13)) != 0; }
#elif defined(__APPLE__)
bool has_feature(const char* name) {
  int value = 0;
  std::size_t size = sizeof value;
  return sysctlbyname(name, &value, &size, nullptr, 0) == 0 && value != 0;
}
bool has_dotprod() { return has_feature("hw.optional.arm.FEAT_DotProd"); }
bool has_i8mm() { return has_feature("hw.optional.arm.FEAT_I8MM"); }
#else
bool has_dotprod() { return false; }
bool has_i8mm() { return false; }
#endif

}  // namespace
#endif

#if defined(__x86_64__)
namespace {

/// Tiles of int8, and the kernel's leave to use them: a process must ask for it once (Linux,
/// Documentation/arch/x86/xstate.rst), before threads hold a smaller signal stack than tiles need.
bool has_amx() {
#if defined(__linux__)
  constexpr long kRequestPermission = 0x1023;
  constexpr long kTileData = 18;
  constexpr unsigned kTiles = 1U << 24, kInt8 = 1U << 25;
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
  if ((edx & kTiles) == 0 || (edx & kInt8) == 0) return false;
  static const bool allowed = syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  return allowed;
#else
  return false;
#endif
}

}  // namespace
#endif

std::vector<const Kernels*> available_kernels() {
  std::vector<const Kernels*> found;
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool has_avx2 =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  const bool has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f") &&
                          __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                          __builtin_cpu_supports("avx512dq");
  const bool has_vnni = has_avx512 && __builtin_cpu_supports("avx512vnni");
  const bool has_bf16 = has_vnni && __builtin_cpu_supports("avx512bf16");
  if (has_bf16 && has_amx()) found.push_back(&amx::kernels());
  if (has_bf16) found.push_back(&avx512bf16::kernels());
  if (has_vnni) found.push_back(&avx512vnni::kernels());
  if (has_avx512) found.push_back(&avx512::kernels());
  if (has_avx2 && __builtin_cpu_supports("avxvnni")) found.push_back(&avxvnni::kernels());
  if (has_avx2) found.push_back(&avx2::kernels());
#elif defined(__aarch64__)
  if (has_dotprod() && has_i8mm()) found.push_back(&neoni8mm::kernels());
  if (has_dotprod()) found.push_back(&neondot::kernels());
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
