#include "cli/watched_backend.h"

#include <utility>

#include "base/clock.h"

namespace ft::cli {
namespace {

class WatchedExecutable final : public Executable {
 public:
  WatchedExecutable(std::unique_ptr<Executable> inner, StepWatch& watch)
      : inner_(std::move(inner)), watch_(watch) {}
  StepResult run(const StepArgs& args, State& state) override {
    const std::int64_t begin = steady_ns();
    const StepResult result = inner_->run(args, state);
    watch_.run_ns += steady_ns() - begin;
    watch_.steps += 1;
    return result;
  }
  int vocabulary() const override { return inner_->vocabulary(); }
  std::span<const std::int32_t> ids() const override { return inner_->ids(); }
  void add_ids(std::span<const std::int32_t> tokens) override { inner_->add_ids(tokens); }
  std::int64_t packed_bytes() const override { return inner_->packed_bytes(); }

 private:
  std::unique_ptr<Executable> inner_;
  StepWatch& watch_;
};

class WatchedBackend final : public Backend {
 public:
  WatchedBackend(std::unique_ptr<Backend> inner, StepWatch& watch, Profiler* profiler)
      : inner_(std::move(inner)), watch_(watch), profiler_(profiler) {}
  std::string_view name() const override { return inner_->name(); }
  std::string describe() const override { return inner_->describe(); }
  std::string arithmetic() const override { return inner_->arithmetic(); }
  Result<std::unique_ptr<Executable>> compile(const Program& program,
                                              const CompileOptions& options) override {
    CompileOptions with_profiler = options;
    with_profiler.profiler = profiler_;
    FT_ASSIGN(std::unique_ptr<Executable> executable, inner_->compile(program, with_profiler));
    return std::unique_ptr<Executable>(std::make_unique<WatchedExecutable>(std::move(executable), watch_));
  }
  Result<std::unique_ptr<State>> make_state(const StateLayout& layout, const StateOptions& options) override {
    return inner_->make_state(layout, options);
  }

 private:
  std::unique_ptr<Backend> inner_;
  StepWatch& watch_;
  Profiler* profiler_;
};

}  // namespace

std::unique_ptr<Backend> watched(std::unique_ptr<Backend> backend, StepWatch& watch, Profiler* profiler) {
  return std::make_unique<WatchedBackend>(std::move(backend), watch, profiler);
}

}  // namespace ft::cli
