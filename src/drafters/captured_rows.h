// Hidden rows that one capture of the target's program leaves for drafters: a ring for every slot in one
// store of the backend. The place of a row follows from its slot and position, so a rejected row is
// overwritten by the next step. The last `history` rows before a step's first one survive the step. All
// captures of a target share their places. The decoder owns it.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "program/backend.h"

namespace ft {

/// The hidden rows of its target that a drafter reads. width 0: none.
struct CaptureRequest {
  std::string name;  // of the target's Capture
  int width = 0;
  int history = 0;  // rows before a step that the drafter may still read after it
};

class CapturedRows {
 public:
  /// `step_rows`: of one slot in one step.
  static Result<std::unique_ptr<CapturedRows>> make(Backend& backend, const CaptureRequest& request,
                                                    int slots, int step_rows) {
    const int ring = step_rows + request.history;
    FT_ASSIGN(std::unique_ptr<RowStore> rows, backend.make_rows(request.width, slots * ring));
    return std::unique_ptr<CapturedRows>(new CapturedRows(request.name, std::move(rows), ring));
  }

  const std::string& name() const { return name_; }

  RowStore& store() { return *rows_; }
  int width() const { return rows_->width(); }
  std::int32_t place(int slot, std::int64_t position) const {
    return static_cast<std::int32_t>(slot * std::int64_t{ring_} + position % ring_);
  }
  /// Rows of positions [position, position + rows) to `to` of another store, or from there.
  void save(int slot, std::int64_t position, std::int32_t rows, RowStore& other, std::int32_t to) const {
    each_run(slot, position, rows, [&](std::int32_t place, std::int32_t at, std::int32_t count) {
      other.copy(*rows_, place, to + at, count);
    });
  }
  void restore(int slot, std::int64_t position, std::int32_t rows, const RowStore& other, std::int32_t from) {
    each_run(slot, position, rows, [&](std::int32_t place, std::int32_t at, std::int32_t count) {
      rows_->copy(other, from + at, place, count);
    });
  }

 private:
  /// The one or two runs of places that the rows have in the ring.
  template <class Run>
  void each_run(int slot, std::int64_t position, std::int32_t rows, Run run) const {
    for (std::int32_t at = 0; at < rows;) {
      const auto left = static_cast<std::int32_t>(ring_ - (position + at) % ring_);
      const std::int32_t count = std::min(rows - at, left);
      run(place(slot, position + at), at, count);
      at += count;
    }
  }

  CapturedRows(std::string name, std::unique_ptr<RowStore> rows, int ring)
      : name_(std::move(name)), rows_(std::move(rows)), ring_(ring) {}

  std::string name_;
  std::unique_ptr<RowStore> rows_;
  int ring_;
};

/// By Capture::number of the target; null: no drafter reads it.
using CapturedSet = std::array<CapturedRows*, kMaxCaptures>;

}  // namespace ft
