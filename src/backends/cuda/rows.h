// Hidden rows in the GPU's memory: kernels write captured rows and read them, by place. Rows of a border are
// in pinned memory of the host, where kernels read and write them, so nothing is copied. Owner: the caller of
// make_rows. Thread: the engine thread; a second one may call read(). Cost: all of the memory at once.
// Errors: make() states how much memory was missing.
#pragma once

#include "backends/cuda/device.h"
#include "program/rows.h"

namespace ft::cuda {

class CudaRows final : public RowStore {
 public:
  static Result<std::unique_ptr<RowStore>> make(std::shared_ptr<Device> device, int width, int capacity);

  int width() const override { return width_; }
  int capacity() const override { return capacity_; }
  void read(std::int32_t first, std::span<float> out) const override;
  void write(std::int32_t first, std::span<const float> in) override;
  void copy(const RowStore& source, std::int32_t from, std::int32_t to, std::int32_t rows) override;

  float* data() const { return host_.empty() ? rows_.at<float>() : host_.at<float>(); }

 private:
  friend class CudaBorder;
  CudaRows(std::shared_ptr<Device> device, int width, int capacity)
      : device_(std::move(device)), width_(width), capacity_(capacity) {}
  float* row(std::int32_t place) const { return data() + std::int64_t{place} * width_; }

  std::shared_ptr<Device> device_;
  int width_, capacity_;
  Memory rows_;
  HostMemory host_;  // of a border, in place of rows_
};

class CudaBorder final : public RowBorder {
 public:
  static Result<std::unique_ptr<RowBorder>> make(const std::shared_ptr<Device>& device, int width,
                                                 int capacity);
  explicit CudaBorder(std::unique_ptr<CudaRows> rows) : rows_(std::move(rows)) {}
  RowStore& rows() override { return *rows_; }
  std::span<const float> fetch(int count) override;
  std::span<float> fill(int count) override {
    return {rows_->data(), static_cast<std::size_t>(count) * static_cast<std::size_t>(rows_->width())};
  }
  void send(int /*count*/) override {}

 private:
  std::unique_ptr<CudaRows> rows_;
};

}  // namespace ft::cuda
