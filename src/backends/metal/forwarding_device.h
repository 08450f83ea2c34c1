// A device that passes everything on to another one: a base for wrappers that watch, count or inject faults.
// A wrapper overrides the calls that it needs. Owner: tests.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "backends/metal/device.h"

namespace ft::metal {

class ForwardingDevice : public Device {
 public:
  explicit ForwardingDevice(std::shared_ptr<Device> inner) : inner_(std::move(inner)) {}
  std::string_view name() const override { return inner_->name(); }
  std::string describe() const override { return inner_->describe(); }
  Result<Buffer> allocate(std::size_t bytes) override { return inner_->allocate(bytes); }
  Result<Buffer> wrap(std::span<const std::byte> pages) override { return inner_->wrap(pages); }
  void release(Buffer& buffer) override { inner_->release(buffer); }
  int kernel(std::string_view name) const override {
    const int number = inner_->kernel(name);
    names_.emplace(number, name);
    return number;
  }
  void keep_pipelines() const override { inner_->keep_pipelines(); }
  int max_threads(int kernel) const override { return inner_->max_threads(kernel); }
  void dispatch(int kernel, std::span<const Place> buffers, std::span<const std::byte> args, Grid grid,
                int threads) override {
    inner_->dispatch(kernel, buffers, args, grid, threads);
  }
  std::int64_t submit() override { return inner_->submit(); }
  void finish() override { inner_->finish(); }
  void wait_for(std::int64_t submission) const override { inner_->wait_for(submission); }
  std::int64_t device_ns() const override { return inner_->device_ns(); }
  std::int64_t longest_ns() const override { return inner_->longest_ns(); }
  std::int64_t memory_bytes() const override { return inner_->memory_bytes(); }

 protected:
  Device& inner() const { return *inner_; }
  /// The kernels that somebody has asked for.
  const std::map<int, std::string>& names() const { return names_; }
  const std::string& name_of(int kernel) const { return names_.at(kernel); }

 private:
  std::shared_ptr<Device> inner_;
  mutable std::map<int, std::string> names_;
};

}  // namespace ft::metal
