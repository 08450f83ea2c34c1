// What crosses between host and GPU in a step: the table of rows, segments and blocks and the hidden rows on
// the way in, captured rows and logits on the way out. Host memory is pinned and stays where it is, as
// graphs need. Owner: an executable. Thread: the engine thread. Cost: one copy each way; it grows with the
// longest timeline.
#pragma once

#include <span>
#include <vector>

#include "backends/cuda/arguments.h"
#include "backends/cuda/device.h"
#include "program/backend.h"

namespace ft::cuda {

/// What decides the launches of a step; steps of one shape can share a graph.
struct StepShape {
  int rows = 0, logit_rows = 0, segments = 0;
  int most_rows = 0;  // of one segment, rounded up to a power of two
  int splits = 0;     // of the cache that the longest timeline has, rounded up to a power of two
  std::int64_t table_bytes = 0;
  auto operator<=>(const StepShape&) const = default;
};

class StepMemory {
 public:
  Status make(const std::shared_ptr<Device>& device, const CompileOptions& options, int hidden_width,
              std::span<const int> capture_widths, std::int64_t vocabulary);

  /// Copies the arguments into the pinned table; `moved` tells that earlier graphs have old addresses.
  StepShape fill(const StepArgs& args, bool& moved);
  void upload(const StepShape& shape);
  void upload_hidden(const StepShape& shape, View to);
  void download_capture(const StepShape& shape, std::size_t number, View from);
  void download_logits(const StepShape& shape, View from);

  const StepTable& table() const { return table_; }
  std::span<const float> logits(int logit_rows) const;
  std::span<const float> capture(std::size_t number, int rows) const;
  /// Of the last step that was filled in, resolved.
  std::span<const std::int32_t> tokens() const;

 private:
  bool reserve(std::int64_t blocks);
  void download(float* to, std::int64_t width, View from, int rows);

  std::shared_ptr<Device> device_;
  CompileOptions options_;
  int hidden_width_ = 0;
  std::vector<int> capture_widths_;  // [Capture::number]
  std::int64_t vocabulary_ = 0;
  std::int64_t fixed_bytes_ = 0, blocks_ = 0;
  HostMemory host_, hidden_, logits_;
  std::vector<HostMemory> captures_;  // [Capture::number]
  Memory device_table_;
  StepTable table_{};
};

/// Splits of the cache that a query at `position` reads.
int splits_of(std::int64_t position);

}  // namespace ft::cuda
