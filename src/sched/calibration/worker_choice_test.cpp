#include "sched/calibration/worker_choice.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <stdexcept>

#include "program/forwarding_backend.h"
#include "tests/toy_decoder.h"

namespace ft::test::worker_choice_test {
namespace {

/// A backend whose steps take ms(workers), by a clock that only steps move.
class WorkersBackend final : public ForwardingBackend {
 public:
  struct World {
    std::function<double(int)> ms;
    int workers = 16;
    double now_ms = 0;
    int steps = 0, fails_at = -1;
    std::vector<int> used;
  };

  explicit WorkersBackend(World& world) : ForwardingBackend(make_ref_backend()), world_(world) {}
  std::vector<int> worker_choices() const override { return {8, 12, 14, 16}; }
  void use_workers(int workers) override {
    world_.workers = workers == 0 ? 16 : workers;
    world_.used.push_back(workers);
  }
  Result<std::unique_ptr<Executable>> compile(const Program& program,
                                              const CompileOptions& options) override {
    FT_ASSIGN(std::unique_ptr<Executable> executable, inner().compile(program, options));
    return std::unique_ptr<Executable>(std::make_unique<Timed>(std::move(executable), world_));
  }

 private:
  class Timed final : public ForwardingExecutable {
   public:
    Timed(std::unique_ptr<Executable> executable, World& world)
        : ForwardingExecutable(std::move(executable)), world_(world) {}
    void submit(const StepArgs& args, State& state) override {
      if (world_.steps++ == world_.fails_at) throw std::runtime_error("the machine failed");
      world_.now_ms += world_.ms(world_.workers);
      inner().submit(args, state);
    }

   private:
    World& world_;
  };
  World& world_;
};

WorkerChoice chosen(WorkersBackend::World& world) {
  ToyDecoder decoder(std::make_unique<WorkersBackend>(world), 1);
  return choose_workers(*decoder, [&world] { return world.now_ms; });
}

TEST(WorkerChoice, TakesTheFastestNumberAndRemembersWhatItWasChosenFrom) {
  WorkersBackend::World world;
  world.ms = [](int workers) { return workers == 14 ? 4.0 : 5.0; };
  const WorkerChoice choice = chosen(world);
  EXPECT_EQ(choice.workers, 14);
  EXPECT_EQ(world.workers, 14) << "and uses it";
  ASSERT_EQ(choice.tried.size(), 4U);
  EXPECT_EQ(choice.tried[2], (WorkerChoice::Tried{14, 8}));
  EXPECT_EQ(worker_text(choice), "14 of 16 workers (8: 10.00 ms, 12: 10.00 ms, 14: 8.00 ms, 16: 10.00 ms)");
}

TEST(WorkerChoice, FewerWorkersWinThatAreAboutAsFast) {
  WorkersBackend::World world;
  world.ms = [](int workers) { return workers < 12 ? 6.0 : 5.0 - 0.01 * workers / 16; };
  EXPECT_EQ(chosen(world).workers, 12);
}

TEST(WorkerChoice, ABusyMomentDoesNotDecide) {
  WorkersBackend::World world;
  int calls = 0;
  world.ms = [&calls](int workers) { return (workers == 16 ? 4.0 : 5.0) * (++calls % 11 == 0 ? 9 : 1); };
  EXPECT_EQ(chosen(world).workers, 16);
}

TEST(WorkerChoice, LongStepsAreTriedOnce) {
  WorkersBackend::World world;
  world.ms = [](int) { return 700.0; };
  EXPECT_EQ(chosen(world).workers, 8);
  EXPECT_LT(world.steps, 20);
}

TEST(WorkerChoice, AllWorkersStayIfTheMachineFails) {
  WorkersBackend::World world;
  world.ms = [](int) { return 1.0; };
  world.fails_at = 9;
  EXPECT_THROW(chosen(world), std::runtime_error);
  EXPECT_EQ(world.used.back(), 0);
}

TEST(WorkerChoice, WhereThereIsNoChoiceNothingIsMeasured) {
  ToyDecoder decoder(1);
  int readings = 0;
  EXPECT_EQ(choose_workers(*decoder, [&readings] { return static_cast<double>(++readings); }),
            WorkerChoice());
  EXPECT_EQ(readings, 0);
  EXPECT_EQ(worker_text({}), "");
}

}  // namespace
}  // namespace ft::test::worker_choice_test
