// Rows of floats that stay in a backend's memory: hidden rows that a step captures, which later steps of the
// same backend read. The host names rows by place and sees their values through read() and write() only.
//   RowStore   a matrix [capacity, width] in the backend's memory; Backend::make_rows makes one
//   RowPlaces  the places of a store that a step reads, one for each of its rows
//   CapturePlaces  the places of each store that a step writes
//   RowBorder  rows that cross from one backend to another; Backend::make_border makes one
// Thread: the engine thread. One second thread may call read() for places that no step writes meanwhile.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ft {

class RowStore {
 public:
  virtual ~RowStore() = default;
  virtual int width() const = 0;
  virtual int capacity() const = 0;
  /// Rows [first, first + n) into `out` [n, width]. Waits for the steps that were submitted.
  virtual void read(std::int32_t first, std::span<float> out) const = 0;
  /// `in` [n, width] into rows [first, first + n). Steps submitted before it do not see it, later ones do.
  virtual void write(std::int32_t first, std::span<const float> in) = 0;
  /// Copies `rows` rows of a store of the same backend and width, or of this one. It is in order with steps
  /// and may return before it is done.
  virtual void copy(const RowStore& source, std::int32_t from, std::int32_t to, std::int32_t rows) = 0;
};

struct RowPlaces {
  RowStore* store = nullptr;
  std::span<const std::int32_t> places;  // [rows of the step]
};

/// Captures that one program may have, and stores that its inputs may read.
inline constexpr std::size_t kMaxCaptures = 8;
inline constexpr std::size_t kMaxInputs = 8;

/// The same places in the store of each capture.
struct CapturePlaces {
  std::array<RowStore*, kMaxCaptures> stores{};  // [Capture::number]; null: its rows are not kept
  std::span<const std::int32_t> places;          // [rows of the step]; a place < 0: none

  CapturePlaces() = default;
  CapturePlaces(RowStore* store, std::span<const std::int32_t> to) : stores{store}, places(to) {}
};

/// A store of a backend whose rows the host reads and writes. Thread: the engine thread.
class RowBorder {
 public:
  virtual ~RowBorder() = default;
  /// For steps of the backend.
  virtual RowStore& rows() = 0;
  /// Rows [0, count) as the submitted steps have written them: [count, width]. It waits for these steps.
  virtual std::span<const float> fetch(int count) = 0;
  /// The host writes rows [0, count) here; no submitted step still reads them: [count, width].
  virtual std::span<float> fill(int count) = 0;
  /// Steps that are submitted from now on read rows [0, count) as they were filled.
  virtual void send(int count) = 0;
};

}  // namespace ft
