#include "backends/metal/gpu_facts.h"

#include <fmt/format.h>

namespace ft::metal {
namespace {

constexpr int kOldestFamily = 7;

double gigabytes(std::uint64_t bytes) { return static_cast<double>(bytes) / 1e9; }

}  // namespace

Status check_family(const GpuFacts& gpu) {
  if (gpu.family >= kOldestFamily) return {};
  return Error{Code::kUnsupported,
               fmt::format("metal backend: {} is older than Apple M1; use --backend cpu", gpu.name)};
}

std::string describe(const GpuFacts& gpu) {
  return fmt::format("{} (family Apple {}), working set {:.1f} GB, not yet measured", gpu.name, gpu.family,
                     gigabytes(gpu.working_set));
}

Status check_room(const GpuFacts& gpu, std::uint64_t used, std::uint64_t size) {
  if (size <= gpu.max_buffer && used <= gpu.working_set && size <= gpu.working_set - used) return {};
  return Error{
      Code::kExhausted,
      fmt::format("metal backend: {:.1f} GB more do not fit next to {:.1f} GB: the GPU's limit is "
                  "{:.1f} GB, {:.1f} GB a buffer; use a smaller model or context, or raise "
                  "iogpu.wired_limit_mb (sysctl)",
                  gigabytes(size), gigabytes(used), gigabytes(gpu.working_set), gigabytes(gpu.max_buffer))};
}

}  // namespace ft::metal
