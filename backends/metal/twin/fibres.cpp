#include "backends/metal/twin/fibres.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

#if !defined(__x86_64__) && !defined(__aarch64__)
#include <ucontext.h>
#endif

namespace ft::metal {
namespace {

constexpr std::size_t kStackBytes = 32 << 10;
constexpr int kMaxThreads = 1024, kLanesOfSimd = 32;

#if defined(__x86_64__) || defined(__aarch64__)
/// Saves what a call must keep, and continues where `to` was saved.
extern "C" void ft_switch_fibre(void** from, void* to);
#if defined(__APPLE__)
#define FT_SYMBOL "_ft_switch_fibre"
#else
#define FT_SYMBOL "ft_switch_fibre"
#endif
#if defined(__x86_64__)
asm(".text\n.globl " FT_SYMBOL "\n" FT_SYMBOL
    ":\n"
    "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
    "movq %rsp, (%rdi)\nmovq %rsi, %rsp\n"
    "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n");
constexpr int kSavedWords = 6;
#else
asm(".text\n.globl " FT_SYMBOL "\n" FT_SYMBOL
    ":\n"
    "sub sp, sp, #160\n"
    "stp x19, x20, [sp]\nstp x21, x22, [sp, #16]\nstp x23, x24, [sp, #32]\nstp x25, x26, [sp, #48]\n"
    "stp x27, x28, [sp, #64]\nstp x29, x30, [sp, #80]\nstp d8, d9, [sp, #96]\nstp d10, d11, [sp, #112]\n"
    "stp d12, d13, [sp, #128]\nstp d14, d15, [sp, #144]\n"
    "mov x9, sp\nstr x9, [x0]\nmov sp, x1\n"
    "ldp x19, x20, [sp]\nldp x21, x22, [sp, #16]\nldp x23, x24, [sp, #32]\nldp x25, x26, [sp, #48]\n"
    "ldp x27, x28, [sp, #64]\nldp x29, x30, [sp, #80]\nldp d8, d9, [sp, #96]\nldp d10, d11, [sp, #112]\n"
    "ldp d12, d13, [sp, #128]\nldp d14, d15, [sp, #144]\n"
    "add sp, sp, #160\nret\n");
#endif
using Context = void*;
void switch_to(Context& from, Context& to) { ft_switch_fibre(&from, to); }
void prepare(Context& context, std::byte* stack, void (*entry)()) {
  const auto end = reinterpret_cast<std::uintptr_t>(stack + kStackBytes) & ~std::uintptr_t{63};
  auto** top = reinterpret_cast<void**>(end);
#if defined(__x86_64__)
  *--top = nullptr;  // where entry() would return to; keeps the stack aligned as after a call
  *--top = reinterpret_cast<void*>(entry);
  for (int i = 0; i < kSavedWords; ++i) *--top = nullptr;
#else
  constexpr int kWords = 20, kLink = 11;
  for (int i = 0; i < kWords; ++i) *--top = nullptr;
  top[kLink] = reinterpret_cast<void*>(entry);
#endif
  context = top;
}
#else
using Context = ucontext_t;
void switch_to(Context& from, Context& to) { swapcontext(&from, &to); }
void prepare(Context& context, std::byte* stack, void (*entry)()) {
  getcontext(&context);
  context.uc_stack.ss_sp = stack;
  context.uc_stack.ss_size = kStackBytes;
  context.uc_link = nullptr;
  makecontext(&context, entry, 0);
}
#endif

struct Fibre {
  Context context{};
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
  Context host{};
  int now = 0, threads = 0;
  const std::function<void(int)>* body = nullptr;
};

thread_local unsigned order_seed = 0;

Group& group() {
  static thread_local Group one;
  return one;
}

Fibre& own() { return group().fibres[static_cast<std::size_t>(group().now)]; }

void leave() { switch_to(own().context, group().host); }

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

// A lane is never more than one meeting ahead of its simdgroup, so two places for what is given do.
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
    prepare(fibre.context, g.stacks.get() + kStackBytes * static_cast<std::size_t>(t), enter);
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
      switch_to(g.host, own().context);
    }
    if (left > 0 && g.progress == before) return false;
  }
  return true;
}

}  // namespace ft::metal
