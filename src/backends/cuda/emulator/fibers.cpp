// The threads of a block: each has a separate stack and runs until it waits for others.
#include "backends/cuda/emulator/fibers.h"

#include <cstdlib>
#include <stdexcept>
#include <vector>

#include "backends/cuda/emulator/matrix_sum.h"
#include "backends/fibre_context.h"

namespace ft::cuda {

Index threadIdx, blockIdx, gridDim;
unsigned char* dynamic_memory = nullptr;

namespace {

constexpr std::size_t kStackBytes = 64 << 10;
constexpr int kMaxThreads = 1024;

/// A barrier in shared memory (hopper.cuh): it opens when all have arrived and all bytes are there.
struct CopyBarrier {
  std::uint8_t count, pending, parity, unused;  // parity: of the phase that is not complete
  std::int32_t bytes;
};

struct Fiber {
  FibreContext context{};
  bool done = false;
  unsigned block_turn = 0, warp_turn = 0, part_turn = 0;  // barriers that it has come to
  const CopyBarrier* awaited = nullptr;
  unsigned parity = 0;  // of its phase
};

struct Warp {
  int live = 0, arrived = 0;
  unsigned turn = 0;  // barriers that all have come to
  std::uint32_t given[2][32];
};

struct Block {
  std::vector<Fiber> fibers{kMaxThreads};
  std::vector<Warp> warps{kMaxThreads / 32};
  std::vector<std::byte> stacks = std::vector<std::byte>(kStackBytes * kMaxThreads);
  FibreContext host{};
  int threads = 0, live = 0, arrived = 0, part_arrived = 0, now = 0;
  unsigned turn = 0, part_turn = 0;
  void (*run)(const void*) = nullptr;
  const void* args = nullptr;
};

Block& block() {
  static Block one;
  return one;
}

void leave() { switch_fibre(block().fibers[static_cast<std::size_t>(block().now)].context, block().host); }

void enter() {
  Block& b = block();
  b.run(b.args);
  b.fibers[static_cast<std::size_t>(b.now)].done = true;
  --b.live;
  --b.warps[static_cast<std::size_t>(b.now / 32)].live;
  leave();
}

/// Whether the thread can continue; opens a barrier whose last thread has arrived or ended.
bool ready(Fiber& fiber, Warp& warp) {
  Block& b = block();
  if (b.arrived > 0 && b.arrived == b.live) b.arrived = 0, ++b.turn;
  if (warp.arrived > 0 && warp.arrived == warp.live) warp.arrived = 0, ++warp.turn;
  if (fiber.awaited != nullptr && fiber.awaited->parity == fiber.parity) return false;
  return fiber.block_turn == b.turn && fiber.warp_turn == warp.turn && fiber.part_turn <= b.part_turn;
}

CopyBarrier& copy_barrier(std::uint32_t at) { return *reinterpret_cast<CopyBarrier*>(dynamic_memory + at); }

void open_if_complete(CopyBarrier& barrier) {
  if (barrier.pending == 0 && barrier.bytes == 0) barrier.pending = barrier.count, barrier.parity ^= 1;
}

}  // namespace

void wait_for_block() {
  Block& b = block();
  Fiber& fiber = b.fibers[static_cast<std::size_t>(b.now)];
  ++fiber.block_turn;
  ++b.arrived;
  leave();
}

std::uint32_t exchange(std::uint32_t own, int from) {
  Block& b = block();
  Fiber& fiber = b.fibers[static_cast<std::size_t>(b.now)];
  Warp& warp = b.warps[static_cast<std::size_t>(b.now / 32)];
  std::uint32_t* given = warp.given[fiber.warp_turn % 2];
  given[b.now % 32] = own;
  ++fiber.warp_turn;
  ++warp.arrived;
  leave();
  return given[from];
}

void sync_first_256() {
  Block& b = block();
  ++b.fibers[static_cast<std::size_t>(b.now)].part_turn;
  if (++b.part_arrived == 256) b.part_arrived = 0, ++b.part_turn;
  leave();
}

void barrier_init(std::uint32_t b, std::uint32_t n) {
  copy_barrier(b) = {static_cast<std::uint8_t>(n), static_cast<std::uint8_t>(n), 0, 0, 0};
}

void barrier_arrive(std::uint32_t b) { barrier_expect(b, 0); }

void barrier_expect(std::uint32_t b, std::uint32_t n) {
  CopyBarrier& barrier = copy_barrier(b);
  if (barrier.pending == 0) throw std::logic_error("emulated device: one arrival too many at a barrier");
  --barrier.pending, barrier.bytes += static_cast<std::int32_t>(n);
  open_if_complete(barrier);
}

void barrier_wait(std::uint32_t b, std::uint32_t parity) {
  Block& own = block();
  Fiber& fiber = own.fibers[static_cast<std::size_t>(own.now)];
  fiber.awaited = &copy_barrier(b), fiber.parity = parity;
  if (fiber.awaited->parity == parity) leave();
  fiber.awaited = nullptr;
}

void bulk_copy(std::uint32_t to, const void* from, std::uint32_t bytes, std::uint32_t barrier) {
  if (bytes % 16 != 0 || to % 16 != 0 || reinterpret_cast<std::uintptr_t>(from) % 16 != 0)
    throw std::logic_error("emulated device: a bulk copy that is not of whole 16 bytes");
  std::memcpy(dynamic_memory + to, from, bytes);
  CopyBarrier& done = copy_barrier(barrier);
  done.bytes -= static_cast<std::int32_t>(bytes);
  open_if_complete(done);
}

bool run_block(int threads, void (*run)(const void*), const void* args) {
  Block& b = block();
  b.threads = b.live = threads;
  b.arrived = b.part_arrived = 0, b.turn = b.part_turn = 0;
  b.run = run, b.args = args;
  for (int i = 0; i < threads; ++i) {
    Fiber& fiber = b.fibers[static_cast<std::size_t>(i)];
    fiber.done = false, fiber.block_turn = fiber.warp_turn = fiber.part_turn = 0;
    fiber.awaited = nullptr;
    prepare_fibre(fiber.context, {b.stacks.data() + kStackBytes * static_cast<std::size_t>(i), kStackBytes},
                  enter);
  }
  for (int w = 0; w * 32 < threads; ++w) {
    Warp& warp = b.warps[static_cast<std::size_t>(w)];
    warp.live = std::min(32, threads - w * 32), warp.arrived = 0, warp.turn = 0;
  }
  while (b.live > 0) {
    bool moved = false;
    for (int w = 0; w * 32 < threads; ++w) {
      for (bool again = true; again;) {  // a warp runs until it must wait
        again = false;
        for (int i = w * 32; i < std::min(threads, w * 32 + 32); ++i) {
          Fiber& fiber = b.fibers[static_cast<std::size_t>(i)];
          if (fiber.done || !ready(fiber, b.warps[static_cast<std::size_t>(w)])) continue;
          b.now = i;
          threadIdx = {static_cast<unsigned>(i), 0, 0};
          switch_fibre(b.host, fiber.context);
          again = moved = true;
        }
      }
    }
    if (!moved) return false;  // every thread waits for another
  }
  return true;
}

/// The product of the warp: every lane gives its registers and computes its own four sums.
void mma_bytes(int (&c)[4], std::uint32_t a0, std::uint32_t a1, std::uint32_t a2, std::uint32_t a3,
               std::uint32_t b0, std::uint32_t b1) {
  const int lane = static_cast<int>(threadIdx.x & 31), quad = lane >> 2, t = lane & 3;
  const std::uint32_t a[4] = {a0, a1, a2, a3}, b[2] = {b0, b1};
  static std::uint32_t left[kMaxThreads / 32][4][32], right[kMaxThreads / 32][2][32];
  const unsigned warp = threadIdx.x / 32;
  for (int i = 0; i < 4; ++i) left[warp][i][lane] = a[i];
  for (int i = 0; i < 2; ++i) right[warp][i][lane] = b[i];
  exchange(0, 0);
  const auto byte = [](std::uint32_t word, int i) { return static_cast<int>(word >> (8 * i) & 255U); };
  for (int i = 0; i < 4; ++i) {
    const int row = quad + i / 2 * 8, column = 2 * t + i % 2;
    for (int k = 0; k < 32; ++k) {
      const int from = k % 16 / 4, half = k / 16;
      const int x = byte(left[warp][2 * half + row / 8][row % 8 * 4 + from], k % 4);
      const int code = byte(right[warp][half][column * 4 + from], k % 4);
      const int y = code < 128 ? code : code - 256;
      c[i] += x * y;
    }
  }
  exchange(0, 0);
}

namespace {

std::uint32_t pair_of(std::uint16_t low, std::uint16_t high) {
  return low | static_cast<std::uint32_t>(high) << 16;
}

}  // namespace

void load_left(std::uint32_t (&a)[4], const std::uint16_t* at, int stride) {
  const int lane = static_cast<int>(threadIdx.x & 31), quad = lane >> 2, t = lane & 3;
  for (int i = 0; i < 4; ++i) {
    const std::uint16_t* from = at + (quad + i % 2 * 8) * stride + 2 * t + i / 2 * 8;
    a[i] = pair_of(from[0], from[1]);
  }
}

void load_right(std::uint32_t (&b)[4], const std::uint16_t* at, int stride) {
  const int lane = static_cast<int>(threadIdx.x & 31), quad = lane >> 2, t = lane & 3;
  for (int i = 0; i < 4; ++i) {
    const std::uint16_t* from = at + quad * stride + 8 * i + 2 * t;
    b[i] = pair_of(from[0], from[1]);
  }
}

void load_right_turned(std::uint32_t (&b)[4], const std::uint16_t* at, int stride) {
  const int lane = static_cast<int>(threadIdx.x & 31), quad = lane >> 2, t = lane & 3;
  for (int i = 0; i < 4; ++i) {
    const std::uint16_t* from = at + (8 * i + 2 * t) * stride + quad;
    b[i] = pair_of(from[0], from[stride]);
  }
}

void mma_halves(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  const int lane = static_cast<int>(threadIdx.x & 31), quad = lane >> 2, t = lane & 3;
  const std::uint32_t b[2] = {b0, b1};
  static HalfTerm left[kMaxThreads / 32][16][16], right[kMaxThreads / 32][8][16];
  const unsigned warp = threadIdx.x / 32;
  const auto half_at = [](std::uint32_t pair, int i) {
    return half_term(static_cast<std::uint16_t>(pair >> (16 * i)));
  };
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 2; ++j) left[warp][quad + i % 2 * 8][2 * t + i / 2 * 8 + j] = half_at(a[i], j);
  }
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 2; ++j) right[warp][quad][2 * t + i * 8 + j] = half_at(b[i], j);
  }
  exchange(0, 0);
  for (int i = 0; i < 4; ++i)
    c[i] = matrix_sum(c[i], left[warp][quad + i / 2 * 8], right[warp][2 * t + i % 2]);
  exchange(0, 0);
}

}  // namespace ft::cuda
