#include "backends/metal/twin/kernels.h"

#include <algorithm>
#include <fmt/format.h>
#include <limits>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "backends/metal/kernels/draft.h"
#include "backends/metal/kernels/elementwise.h"
#include "backends/metal/kernels/linear.h"
#include "backends/metal/kernels/norm.h"
#include "backends/metal/kernels/state.h"

namespace ft::metal {
namespace {

using Call = void (*)(std::byte* const* buffers, const std::byte* args, uint3 group, uint lane, uint simd);

/// Binds a kernel by its C++ signature: buffers, arguments, then where the thread is.
template <auto Kernel, class Signature = decltype(Kernel)>
struct Bound;
template <auto Kernel, class... P>
struct Bound<Kernel, void (*)(P...)> {
  static constexpr std::size_t kBuffers = sizeof...(P) - 4;
  using Parameters = std::tuple<P...>;
  template <std::size_t I>
  using Parameter = std::tuple_element_t<I, Parameters>;
  static_assert(std::is_same_v<Parameter<kBuffers + 1>, uint3> && std::is_reference_v<Parameter<kBuffers>>);

  static void call(std::byte* const* buffers, const std::byte* args, uint3 group, uint lane, uint simd) {
    call(buffers, args, group, lane, simd, std::make_index_sequence<kBuffers>());
  }
  template <std::size_t... I>
  static void call(std::byte* const* buffers, const std::byte* args, uint3 group, uint lane, uint simd,
                   std::index_sequence<I...>) {
    using Args = std::remove_reference_t<Parameter<kBuffers>>;
    Kernel(reinterpret_cast<Parameter<I>>(buffers[I])..., *reinterpret_cast<const Args*>(args), group, lane,
           simd);
  }
};

struct Entry {
  std::string_view name;
  Call call;
  std::size_t buffers;
};

template <auto Kernel>
constexpr Entry entry(std::string_view name) {
  return {name, &Bound<Kernel>::call, Bound<Kernel>::kBuffers};
}

constexpr Entry kKernels[] = {
#define FT_PLAIN(name) entry<&name>(#name),
#define FT_INSTANCE(name, ...) entry<&__VA_ARGS__>(#name),
#include "backends/metal/kernels/list.inc"
#undef FT_PLAIN
#undef FT_INSTANCE
};

}  // namespace

int find_twin_kernel(std::string_view name) {
  const auto* const found = std::ranges::find(kKernels, name, &Entry::name);
  return found == std::end(kKernels) ? -1 : static_cast<int>(found - std::begin(kKernels));
}

void run_twin_kernel(int number, std::span<std::byte* const> buffers, const std::byte* args, Grid grid,
                     int threads) {
  const Entry& found = kKernels[number];
  if (buffers.size() != found.buffers) {
    throw std::runtime_error(
        fmt::format("metal-twin: {} takes {} buffers, not {}", found.name, found.buffers, buffers.size()));
  }
  uint3 at{};
  const std::function<void(int)> body = [&](int t) {
    found.call(buffers.data(), args, at, static_cast<uint>(t) % kLanes, static_cast<uint>(t) / kLanes);
  };
  for (at.z = 0; at.z < grid.z; ++at.z) {
    for (at.y = 0; at.y < grid.y; ++at.y) {
      for (at.x = 0; at.x < grid.x; ++at.x) {
        if (run_group(threads, body)) continue;
        throw std::runtime_error(
            fmt::format("metal-twin: threads of {} wait for others that never come", found.name));
      }
    }
  }
}

}  // namespace ft::metal
