#include "backends/metal/twin/fibres.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

#include "backends/fibre_context.h"

namespace ft::metal {
namespace {

constexpr std::size_t kStackBytes = 32 << 10;
constexpr int kMaxThreads = 1024, kLanesOfSimd = 32;

struct Fibre {
  FibreContext context{};
  bool done = false;
  int met = 0, waited = 0;  // meetings of its simdgroup and of the group that it came to
};

struct Group {
  std::vector<Fibre> fibres{kMaxThreads};
  std::unique_ptr<std::byte[]> stacks{new std::byte[kStackBytes * kMaxThreads]};
  std::vector<int> order = std::vector<int>(kMaxThreads);
  float given[2][kMaxThreads] = {};
  long arrived[kMaxThreads / kLanesOfSimd] = {};  // at meetings of a simdgroup, all lanes and times together
  long group_arrived = 0, progress = 0;
  FibreContext host{};
  int now = 0, threads = 0;
  const std::function<void(int)>* body = nullptr;
};

thread_local unsigned order_seed = 0;

Group& group() {
  static thread_local Group one;
  return one;
}

Fibre& own() { return group().fibres[static_cast<std::size_t>(group().now)]; }

void leave() { switch_fibre(own().context, group().host); }

void enter() {
  (*group().body)(group().now);
  own().done = true;
  ++group().progress;
  for (;;) leave();
}

void shuffle(std::vector<int>& order, int threads, unsigned& seed) {
  constexpr unsigned kFactor = 1664525, kStep = 1013904223;
  for (int i = threads - 1; i > 0; --i) {
    seed = seed * kFactor + kStep;
    std::swap(order[static_cast<std::size_t>(i)], order[(seed >> 8) % static_cast<unsigned>(i + 1)]);
  }
}

}  // namespace

void set_fibre_order(unsigned seed) { order_seed = seed; }

// A lane is never more than one exchange ahead of its simdgroup, so two places for the values are enough.
float exchange(float x, int distance) {
  Group& g = group();
  Fibre& fibre = own();
  const int me = g.now, simd = me / kLanesOfSimd, times = ++fibre.met;
  const long lanes = std::min(kLanesOfSimd, g.threads - simd * kLanesOfSimd);
  g.given[times & 1][me] = x;
  ++g.arrived[simd];
  ++g.progress;
  do leave();
  while (g.arrived[simd] < lanes * times);
  return g.given[times & 1][me ^ distance];
}

void wait_for_group() {
  Group& g = group();
  const int times = ++own().waited;
  ++g.group_arrived;
  ++g.progress;
  do leave();
  while (g.group_arrived < static_cast<long>(times) * g.threads);
}

bool run_group(int threads, const std::function<void(int)>& body) {
  Group& g = group();
  g.threads = threads;
  g.body = &body;
  g.group_arrived = g.progress = 0;
  std::fill(std::begin(g.arrived), std::end(g.arrived), 0L);
  for (int t = 0; t < threads; ++t) {
    Fibre& fibre = g.fibres[static_cast<std::size_t>(t)];
    fibre.done = false;
    fibre.met = fibre.waited = 0;
    prepare_fibre(fibre.context, {g.stacks.get() + kStackBytes * static_cast<std::size_t>(t), kStackBytes},
                  enter);
  }
  std::iota(g.order.begin(), g.order.begin() + threads, 0);
  unsigned seed = order_seed;
  for (int left = threads; left > 0;) {
    if (seed != 0) shuffle(g.order, threads, seed);
    const long before = g.progress;
    left = 0;
    for (int i = 0; i < threads; ++i) {
      g.now = g.order[static_cast<std::size_t>(i)];
      if (own().done) continue;
      ++left;
      switch_fibre(g.host, own().context);
    }
    if (left > 0 && g.progress == before) return false;
  }
  return true;
}

}  // namespace ft::metal
