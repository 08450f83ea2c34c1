// Hidden rows in the device's memory, which the host sees too. Reads, writes and copies wait for all steps,
// then they are plain copies.
#pragma once

#include <cstring>
#include <memory>

#include "backends/metal/device.h"
#include "program/rows.h"

namespace ft::metal {

class MetalRows final : public RowStore {
 public:
  static Result<std::unique_ptr<RowStore>> make(const std::shared_ptr<Device>& device, int width,
                                                int capacity) {
    std::unique_ptr<MetalRows> rows(new MetalRows(device, width, capacity));
    const std::size_t bytes = rows->row_bytes() * static_cast<std::size_t>(capacity);
    FT_ASSIGN(rows->memory_, Memory::make(device, bytes));
    return std::unique_ptr<RowStore>(std::move(rows));
  }

  int width() const override { return width_; }
  int capacity() const override { return capacity_; }
  void read(std::int32_t first, std::span<float> out) const override {
    device_->wait_idle();
    std::memcpy(out.data(), row(first), out.size_bytes());
  }
  void write(std::int32_t first, std::span<const float> in) override {
    device_->wait_idle();
    std::memcpy(row(first), in.data(), in.size_bytes());
  }
  void copy(const RowStore& source, std::int32_t from, std::int32_t to, std::int32_t rows) override {
    const auto& other = static_cast<const MetalRows&>(source);
    device_->wait_idle();
    std::memmove(row(to), other.row(from), static_cast<std::size_t>(rows) * row_bytes());
  }
  Place at() const { return memory_.at(); }

 private:
  MetalRows(std::shared_ptr<Device> device, int width, int capacity)
      : device_(std::move(device)), width_(width), capacity_(capacity) {}
  std::size_t row_bytes() const { return static_cast<std::size_t>(width_) * sizeof(float); }
  std::byte* row(std::int32_t place) const {
    return memory_.data() + static_cast<std::size_t>(place) * row_bytes();
  }

  std::shared_ptr<Device> device_;
  int width_, capacity_;
  Memory memory_;
};

}  // namespace ft::metal
