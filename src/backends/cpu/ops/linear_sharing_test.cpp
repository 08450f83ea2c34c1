// Workers share the parts of a linear: with a worker that has not begun, and with random delays of many.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <gtest/gtest.h>
#include <memory>
#include <thread>
#include <vector>

#include "backends/cpu/executable.h"
#include "backends/cpu/kernels/features.h"
#include "backends/cpu/memory.h"
#include "backends/cpu/ops/claims.h"
#include "backends/random_weights.h"

namespace ft::cpu::linear_sharing_test {
namespace {

constexpr int kColumns = 512;
constexpr int kOutputs = 3000;  // the last block is not whole
constexpr int kRows = 11;       // more than a tile of most kernels

/// A linear of several formats, whose operations the test calls itself.
class SharedLinear {
 public:
  SharedLinear(const Kernels& kernels, int workers, int activations, int rows)
      : workers_(workers), kernels_(kernels) {
    RandomWeights random(5);
    for (const Weight& weight : {random.affine(kOutputs, kColumns, 4, 64, Format::kBf16),
                                 random.affine(kOutputs, kColumns, 8, 32, Format::kBf16),
                                 random.plain(Format::kBf16, kOutputs, kColumns, 1),
                                 random.plain(Format::kF32, kOutputs, kColumns, 1)}) {
      add(weight);
    }
    BuildContext context;
    context.options.max_rows = std::max(16, rows);
    context.workers = workers;
    context.int16 = activations == 16;
    context.pair_bytes = context.int16 ? kExactPairBytes : kernels.pair_bytes;
    LinearParts linear;
    for (const Packed& packed : packed_) linear.weights.push_back(&packed);
    in_.resize(static_cast<std::size_t>(rows * kColumns));
    for (float& value : in_) value = random.uniform();
    linear.in = {in_.data(), kColumns, 0};
    outs_.assign(packed_.size(), std::vector<float>(static_cast<std::size_t>(rows * kOutputs)));
    for (std::vector<float>& out : outs_) linear.outs.push_back({out.data(), kOutputs, 0});
    linear.softcap = 30;
    scratch_ = Memory::allocate(linear_scratch_bytes(linear.weights, context.options.max_rows, context));
    context.scratch = scratch_.data();
    operation_ = make_linear(std::move(linear), context);
    step_.kernels = &kernels_;
    step_.rows = rows;
    step_.small_batch = rows <= kSmallBatchRows;
  }

  void begin_step() {
    ++step_.number;
    for (std::vector<float>& out : outs_) std::ranges::fill(out, -7.0F);
  }
  /// A large batch has a barrier inside.
  void use(ThreadPool& pool) { step_.pool = &pool; }
  void run(int worker) { operation_->run(step_, worker, workers_); }
  bool help(int worker, int owner) { return operation_->help(step_, worker, owner, workers_); }
  bool shares() const { return operation_->shares(); }
  std::vector<std::vector<float>>& outs() { return outs_; }

 private:
  void add(const Weight& weight) {
    Packed packed = plan_pack(weight, weight.rows).value();
    memory_.push_back(Memory::allocate(packed.bytes()));
    packed.data = memory_.back().data();
    PackScratch scratch;
    scratch.fit(packed);
    pack_blocks(weight, {}, packed, 0, packed.blocks, memory_.back().data(), scratch);
    packed_.push_back(packed);
  }

  int workers_;
  const Kernels& kernels_;
  std::vector<Memory> memory_;
  std::vector<Packed> packed_;
  std::vector<float> in_;
  std::vector<std::vector<float>> outs_;
  Memory scratch_;
  std::unique_ptr<Operation> operation_;
  Step step_;
};

std::vector<std::vector<float>> alone(const Kernels& kernels, int activations, int rows) {
  SharedLinear linear(kernels, 1, activations, rows);
  EXPECT_FALSE(linear.shares());
  linear.begin_step();
  linear.run(0);
  return linear.outs();
}

TEST(CpuLinearSharing, OthersDoThePartOfAWorkerThatHasNotBegunAndItDoesNothingTwice) {
  for (const Kernels* kernels : available_kernels()) {
    for (const int activations : {8, 16}) {
      for (const int rows : {1, 4, kRows}) {
        const std::vector<std::vector<float>> expected = alone(*kernels, activations, rows);
        SharedLinear linear(*kernels, 3, activations, rows);
        ASSERT_TRUE(linear.shares());
        for (int step = 0; step < 3; ++step) {
          linear.begin_step();
          linear.run(0);
          EXPECT_NE(linear.outs(), expected) << "worker 1 and 2 have not begun";
          linear.run(2);
          EXPECT_FALSE(linear.help(2, 0)) << "worker 0 has left nothing";
          int pieces = 0;
          while (linear.help(pieces % 2 == 0 ? 0 : 2, 1)) ++pieces;
          EXPECT_GT(pieces, 4);
          EXPECT_EQ(linear.outs(), expected)
              << kernels->name << ", " << activations << " bits, " << rows << " rows, step " << step;
          for (std::vector<float>& out : linear.outs()) std::ranges::fill(out, -7.0F);
          linear.run(1);
          for (const std::vector<float>& out : linear.outs())
            EXPECT_TRUE(std::ranges::all_of(out, [](float value) { return value == -7.0F; }));
        }
      }
    }
  }
}

TEST(CpuLinearSharing, TwoWorkersHaveNoPieces) {
  EXPECT_FALSE(SharedLinear(*available_kernels().front(), 2, 8, 1).shares());
  EXPECT_TRUE(SharedLinear(*available_kernels().front(), 3, 8, 1).shares());
}

/// Spins for a time that differs from call to call; now and then it sleeps.
void delay(std::uint32_t& seed) {
  seed = seed * 1664525U + 1013904223U;
  if (seed >> 27 == 0) std::this_thread::sleep_for(std::chrono::microseconds(seed >> 20 & 255));
  for (std::uint32_t spin = seed >> 22; spin > 0; --spin) relax();
}

/// Steps of five workers, one of whom is slow, give `expected`.
void run_with_delays(const Kernels& kernels, int rows, int steps,
                     const std::vector<std::vector<float>>& expected) {
  constexpr int kWorkers = 5;
  SharedLinear linear(kernels, kWorkers, 8, rows);
  ThreadPool pool(kWorkers);
  linear.use(pool);
  std::atomic<int> helped{0};
  std::vector<std::uint32_t> seeds(kWorkers);
  for (int step = 0; step < steps; ++step) {
    linear.begin_step();
    auto work = [&](int worker, int workers) {
      std::uint32_t& seed = seeds[static_cast<std::size_t>(worker)];
      seed += static_cast<std::uint32_t>(step * kWorkers + worker);
      delay(seed);
      if (worker == step % workers)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));  // the slow one
      linear.run(worker);
      for (int next = 1; next < workers; ++next) {
        while (linear.help(worker, (worker + next) % workers)) helped.fetch_add(1);
        delay(seed);
      }
    };
    pool.run(work);
    ASSERT_EQ(linear.outs(), expected) << "step " << step;
  }
  EXPECT_GT(helped.load(), steps);
}

TEST(CpuLinearSharing, HasTheSameBitsUnderRandomDelays) {
  const Kernels& kernels = *available_kernels().front();
  run_with_delays(kernels, 2, 60, alone(kernels, 8, 2));
}

TEST(CpuLinearSharing, ALargeBatchOfTwoPortionsHasTheSameBitsUnderRandomDelays) {
  constexpr int kPortions = 250;  // rows: more than a portion, the last tile is not whole
  const Kernels& kernels = *available_kernels().front();
  SharedLinear one(kernels, 1, 8, kPortions);
  ThreadPool pool(1);
  one.use(pool);
  one.begin_step();
  auto work = [&](int worker, int) { one.run(worker); };
  pool.run(work);
  run_with_delays(kernels, kPortions, 3, one.outs());
}

TEST(CpuClaims, EachPieceIsTakenOnceInEachStep) {
  constexpr int kWorkers = 4, kPieces = Claims::kMaxPieces, kSteps = 20;
  ThreadPool pool(kWorkers);
  Claims claims;
  std::vector<int> done(kPieces);  // plain: finish() and wait() alone make them visible
  for (std::uint64_t step = 1; step <= kSteps; ++step) {
    auto work = [&](int worker, int) {
      std::uint32_t seed = static_cast<std::uint32_t>(step) * 8 + static_cast<std::uint32_t>(worker);
      for (int piece = claims.take(step, kPieces); piece >= 0; piece = claims.take(step, kPieces)) {
        if (piece % 512 == 0) delay(seed);
        ++done[static_cast<std::size_t>(piece)];
        claims.finish();
      }
      if (worker != 0) return;
      claims.wait(kPieces);
      for (const int count : done) EXPECT_EQ(count, static_cast<int>(step));
    };
    pool.run(work);
  }
}

}  // namespace
}  // namespace ft::cpu::linear_sharing_test
