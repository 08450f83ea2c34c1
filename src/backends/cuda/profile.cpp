// Where the time of a step goes (program/profile.h), by the device's clock: a stamp after each instruction
// that launched something. A step with stamps is a graph too, so that the device does not wait for the host,
// but no launch in it begins before the one before has ended: its instructions take longer than otherwise.
#include "backends/cuda/executable.h"
#include "base/clock.h"

namespace ft::cuda {

void CudaExecutable::profile(const Program& program) {
  if (profiler_ == nullptr) return;
  std::vector<ProfiledOperation> list = {{"table", -1}};
  for (const Instruction& instruction : program.instructions())
    list.push_back({instruction_name(instruction), static_cast<int>(list.size()) - 1});
  times_.resize(list.size());
  profiled_as_ = profiler_->compiled(program, std::move(list), 1);
}

void CudaExecutable::enqueue_timed(const GraphKey& step) {
  Stamps& stamps = stamps_[step];
  stamps.clear();
  std::int64_t before = device_->launches();
  const auto end = [&](int place) {
    if (device_->launches() == before) return;
    before = device_->launches();
    stamps.push_back(place);
    device_->stamp(static_cast<int>(stamps.size()));
  };
  device_->stamp(0);
  compiled_.step.fetch(step.shape);
  end(0);
  const StepRun run = run_of(step);
  for (std::size_t i = 0; i < compiled_.operations.size(); ++i) {
    compiled_.operations[i](run);
    end(compiled_.made_for[i] + 1);
  }
}

/// Waits for earlier work, and for the step.
void CudaExecutable::start_timed(const GraphKey& step) {
  device_->wait();
  prepare(step.shape);
  const bool recorded = device_->facts().graphs && step.shape.rows <= kGraphRows;
  if (recorded && !graphs_.contains(step)) record_now(step);
  device_->wait();
  const std::int64_t begin_ns = steady_ns();
  recorded ? device_->launch(*graphs_.at(step)) : enqueue_timed(step);
  device_->wait();
  tell_profiler(step, begin_ns);
}

/// Instructions come one after the other; an instruction that another one includes has no time.
void CudaExecutable::tell_profiler(const GraphKey& step, std::int64_t begin_ns) {
  const Stamps& stamps = stamps_.at(step);
  std::vector<double> spent(times_.size());
  double before = 0;
  for (std::size_t i = 0; i < stamps.size(); ++i) {
    const double now = device_->stamp_ns(static_cast<int>(i) + 1);
    spent[static_cast<std::size_t>(stamps[i])] += now - before;
    before = now;
  }
  double at = static_cast<double>(begin_ns);
  for (std::size_t i = 0; i < times_.size(); ++i) {
    OperationTime& time = times_[i];
    time.begin_ns = static_cast<std::int64_t>(at);
    at += spent[i];
    time.end_ns = time.left_ns = static_cast<std::int64_t>(at);
  }
  profiler_->stepped(
      {profiled_as_, step.shape.rows, step.shape.logit_rows, begin_ns, times_.back().left_ns, times_});
}

}  // namespace ft::cuda
