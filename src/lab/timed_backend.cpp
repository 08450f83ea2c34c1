#include "lab/timed_backend.h"

#include <utility>

#include "base/clock.h"
#include "program/forwarding_backend.h"

namespace ft {
namespace {

class TimedExecutable final : public ForwardingExecutable {
 public:
  TimedExecutable(std::unique_ptr<Executable> inner, StepWatch& watch)
      : ForwardingExecutable(std::move(inner)), watch_(watch) {}
  void submit(const StepArgs& args, State& state) override {
    const std::int64_t begin = steady_ns();
    inner().submit(args, state);
    watch_.submit_ns += steady_ns() - begin;
    watch_.steps += 1;
  }
  void submit_samples(const StepArgs& args) override {
    const std::int64_t begin = steady_ns();
    inner().submit_samples(args);
    watch_.submit_ns += steady_ns() - begin;
  }
  StepResult collect() override {
    const StepResult result = inner().collect();
    watch_.run_ns += result.waited_ns > 0 ? result.waited_ns : watch_.submit_ns;
    watch_.submit_ns = 0;
    return result;
  }

 private:
  StepWatch& watch_;
};

class TimedBackend final : public ForwardingBackend {
 public:
  TimedBackend(std::unique_ptr<Backend> inner, StepWatch& watch, Profiler* profiler)
      : ForwardingBackend(std::move(inner)), watch_(watch), profiler_(profiler) {}
  Result<std::unique_ptr<Executable>> compile(const Program& program,
                                              const CompileOptions& options) override {
    CompileOptions with_profiler = options;
    with_profiler.profiler = profiler_;
    FT_ASSIGN(std::unique_ptr<Executable> executable, inner().compile(program, with_profiler));
    return std::unique_ptr<Executable>(std::make_unique<TimedExecutable>(std::move(executable), watch_));
  }

 private:
  StepWatch& watch_;
  Profiler* profiler_;
};

}  // namespace

std::unique_ptr<Backend> timed(std::unique_ptr<Backend> backend, StepWatch& watch, Profiler* profiler) {
  return std::make_unique<TimedBackend>(std::move(backend), watch, profiler);
}

}  // namespace ft
