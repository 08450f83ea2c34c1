// A backend that passes everything on to another one: a base for wrappers that watch, count or inject faults.
// A wrapper overrides the calls that it needs; steps always come through submit() and collect().
#pragma once

#include <memory>
#include <utility>

#include "program/backend.h"

namespace ft {

class ForwardingExecutable : public Executable {
 public:
  explicit ForwardingExecutable(std::unique_ptr<Executable> inner) : inner_(std::move(inner)) {}
  void submit(const StepArgs& args, State& state) override { inner_->submit(args, state); }
  bool samples_later() const override { return inner_->samples_later(); }
  void submit_samples(const StepArgs& args) override { inner_->submit_samples(args); }
  StepResult collect() override { return inner_->collect(); }
  StepResult run(const StepArgs& args, State& state) final {
    submit(args, state);
    return collect();
  }
  int vocabulary() const override { return inner_->vocabulary(); }
  std::span<const std::int32_t> ids() const override { return inner_->ids(); }
  void add_draft_tokens(std::span<const std::int32_t> tokens) override { inner_->add_draft_tokens(tokens); }
  void walk_candidates(std::size_t row, std::int32_t predecessor, std::span<const std::uint32_t> mask,
                       WalkCandidates& out) const override {
    inner_->walk_candidates(row, predecessor, mask, out);
  }
  std::int64_t packed_bytes() const override { return inner_->packed_bytes(); }

 protected:
  Executable& inner() { return *inner_; }

 private:
  std::unique_ptr<Executable> inner_;
};

class ForwardingBackend : public Backend {
 public:
  explicit ForwardingBackend(std::unique_ptr<Backend> inner) : inner_(std::move(inner)) {}
  std::string_view name() const override { return inner_->name(); }
  std::string describe() const override { return inner_->describe(); }
  std::string arithmetic() const override { return inner_->arithmetic(); }
  Limits limits(const StateLayout& layout) const override { return inner_->limits(layout); }
  ProgramMemory memory_for(const Program& program, const Occupancy& use) const override {
    return inner_->memory_for(program, use);
  }
  Status check_supported(const Program& program) const override { return inner_->check_supported(program); }
  std::vector<int> worker_choices() const override { return inner_->worker_choices(); }
  void use_workers(int workers) override { inner_->use_workers(workers); }
  double measured_bandwidth_gb_s() override { return inner_->measured_bandwidth_gb_s(); }
  Result<std::unique_ptr<Executable>> compile(const Program& program,
                                              const CompileOptions& options) override {
    return inner_->compile(program, options);
  }
  Result<std::unique_ptr<State>> make_state(const StateLayout& layout, const StateOptions& options) override {
    return inner_->make_state(layout, options);
  }
  Result<std::unique_ptr<RowStore>> make_rows(int width, int capacity) override {
    return inner_->make_rows(width, capacity);
  }
  // make_border: the default, whose rows are those of the wrapper

 protected:
  Backend& inner() { return *inner_; }

 private:
  std::unique_ptr<Backend> inner_;
};

}  // namespace ft
