// The host's input for the sampling of a step that began without it: samplers, and the changes of penalties,
// biases and masks to the logits. Owner: an executable. Thread: the engine thread. Cost: the rows' inputs
// are copied twice, a history once for all rows that share it; memory grows with the largest step.
#pragma once

#include <memory>
#include <span>

#include "backends/cuda/arguments.h"
#include "backends/cuda/device.h"
#include "program/sample_row.h"

namespace ft::cuda {

/// Addresses of the device.
struct SamplePlaces {
  const SamplePlace* samples = nullptr;  // [rows]
  const AdjustPlace* rows = nullptr;     // [rows]; null: no row's logits change
  const SeenToken* seen = nullptr;
  const BiasedToken* biased = nullptr;
  const unsigned int* words = nullptr;
};

/// Whether penalties, a bias or a mask change the row's logits.
bool adjusts(const SampleRow& row);
SamplePlace place_of(const SampleRow& row);

class SampleMemory {
 public:
  explicit SampleMemory(std::shared_ptr<Device> device) : device_(std::move(device)) {}

  /// Copies the rows' inputs to the device, after the launches queued before. Waits if there is no room.
  SamplePlaces fill(std::span<const SampleRow> rows);
  /// Everything that was launched has ended.
  void ended() { used_ = 0; }

 private:
  std::int64_t room_for(std::int64_t bytes);

  std::shared_ptr<Device> device_;
  HostMemory host_;
  Memory memory_;  // as large, with the same places
  std::int64_t used_ = 0;
};

}  // namespace ft::cuda
