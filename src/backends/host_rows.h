// Captured rows in the machine's own memory, for backends that compute there: reads and writes are copies,
// steps use the rows where they are. Memory that was never written takes no pages. Also reads arguments of
// a step for these backends.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <memory>
#include <string_view>

#include "base/assert.h"
#include "base/result.h"
#include "program/backend.h"

namespace ft {

class HostRows final : public RowStore {
 public:
  /// `who` begins the error's sentence: "cpu backend".
  static Result<std::unique_ptr<RowStore>> make(int width, int capacity, std::string_view who) {
    const auto floats = static_cast<std::size_t>(width) * static_cast<std::size_t>(capacity);
    std::unique_ptr<HostRows> rows(new (std::nothrow) HostRows(width, capacity));
    if (rows)
      rows->rows_.reset(static_cast<float*>(std::calloc(std::max<std::size_t>(1, floats), sizeof(float))));
    if (!rows || !rows->rows_) {
      return Error{
          Code::kExhausted,
          fmt::format("{}: no memory for {} hidden rows of {}; ask for fewer slots or a smaller prompt "
                      "chunk",
                      who, capacity, width)};
    }
    return std::unique_ptr<RowStore>(std::move(rows));
  }

  int width() const override { return width_; }
  int capacity() const override { return capacity_; }
  void read(std::int32_t first, std::span<float> out) const override {
    std::copy_n(row(first), out.size(), out.data());
  }
  void write(std::int32_t first, std::span<const float> in) override {
    std::copy_n(in.data(), in.size(), row(first));
  }
  void copy(const RowStore& source, std::int32_t from, std::int32_t to, std::int32_t rows) override {
    const auto& host = static_cast<const HostRows&>(source);
    std::memmove(row(to), host.row(from), static_cast<std::size_t>(rows) * row_bytes());
  }

  float* row(std::int32_t place) const {
    FT_ASSERT(place >= 0 && place < capacity_);
    return rows_.get() + static_cast<std::size_t>(place) * static_cast<std::size_t>(width_);
  }
  std::size_t row_bytes() const { return static_cast<std::size_t>(width_) * sizeof(float); }

 private:
  struct Free {
    void operator()(float* rows) const { std::free(rows); }
  };
  HostRows(int width, int capacity) : width_(width), capacity_(capacity) {}

  int width_, capacity_;
  std::unique_ptr<float, Free> rows_;
};

/// A border of a backend that computes in the machine's memory: nothing is copied.
class HostBorder final : public RowBorder {
 public:
  static Result<std::unique_ptr<RowBorder>> make(int width, int capacity, std::string_view who) {
    FT_ASSIGN(std::unique_ptr<RowStore> rows, HostRows::make(width, capacity, who));
    return std::unique_ptr<RowBorder>(std::make_unique<HostBorder>(std::move(rows)));
  }
  explicit HostBorder(std::unique_ptr<RowStore> rows) : rows_(std::move(rows)) {}
  RowStore& rows() override { return *rows_; }
  std::span<const float> fetch(int count) override { return fill(count); }
  std::span<float> fill(int count) override {
    return {static_cast<HostRows&>(*rows_).row(0),
            static_cast<std::size_t>(count) * static_cast<std::size_t>(rows_->width())};
  }
  void send(int /*count*/) override {}

 private:
  std::unique_ptr<RowStore> rows_;
};

/// The row that `places` names for row `index` of a step on the host.
inline float* host_row(const RowPlaces& places, int index) {
  return static_cast<const HostRows*>(places.store)->row(places.places[static_cast<std::size_t>(index)]);
}

/// Writes the rows [rows, width] of capture `number` of a step to the places that it names.
inline void capture_rows(const CapturePlaces& capture, int number, const float* rows) {
  const RowStore* to = capture.stores[static_cast<std::size_t>(number)];
  if (to == nullptr) return;
  const auto& store = *static_cast<const HostRows*>(to);
  for (std::size_t i = 0; i < capture.places.size(); ++i) {
    if (capture.places[i] < 0) continue;
    std::memcpy(store.row(capture.places[i]), rows + i * static_cast<std::size_t>(store.width()),
                store.row_bytes());
  }
}

/// The token itself where it is given by its place among the round's tokens.
inline std::int32_t resolved(const StepArgs& args, std::int32_t token) {
  return token < 0 ? args.round_tokens[static_cast<std::size_t>(-1 - token)] : token;
}

/// The tokens that count as emitted before logit row `row`; `tokens`: the step's, resolved.
inline std::span<const std::int32_t> drafts_of(const StepArgs& args, std::span<const std::int32_t> tokens,
                                               std::size_t row) {
  const DraftPlaces& drafts = args.samples[row].drafts;
  const auto count = static_cast<std::size_t>(drafts.count);
  if (drafts.first >= 0) return args.round_tokens.subspan(static_cast<std::size_t>(drafts.first), count);
  return tokens.subspan(static_cast<std::size_t>(args.logit_rows[row]) + 1 - count, count);
}

}  // namespace ft
