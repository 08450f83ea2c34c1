#include "backends/cuda/rows.h"

#include <algorithm>

#include "base/assert.h"

namespace ft::cuda {

Result<std::unique_ptr<RowStore>> CudaRows::make(std::shared_ptr<Device> device, int width, int capacity) {
  const std::int64_t bytes = std::int64_t{width} * capacity * static_cast<std::int64_t>(sizeof(float));
  std::unique_ptr<CudaRows> rows(new CudaRows(std::move(device), width, capacity));
  rows->rows_ = Memory(rows->device_, static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1)));
  if (rows->rows_.empty())
    return no_memory(*rows->device_, "hidden rows", bytes, "ask for fewer slots or a smaller prompt chunk");
  return std::unique_ptr<RowStore>(std::move(rows));
}

Result<std::unique_ptr<RowBorder>> CudaBorder::make(const std::shared_ptr<Device>& device, int width,
                                                    int capacity) {
  const std::int64_t bytes = std::int64_t{width} * capacity * static_cast<std::int64_t>(sizeof(float));
  std::unique_ptr<CudaRows> rows(new CudaRows(device, width, capacity));
  rows->host_ = HostMemory(device, static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1)));
  if (rows->host_.empty()) {
    return Error{Code::kExhausted,
                 "cuda backend: no pinned host memory for rows that cross to another device; use a smaller "
                 "prompt chunk"};
  }
  return std::unique_ptr<RowBorder>(std::make_unique<CudaBorder>(std::move(rows)));
}

std::span<const float> CudaBorder::fetch(int count) {
  rows_->device_->wait();
  return fill(count);
}

void CudaRows::read(std::int32_t first, std::span<float> out) const {
  device_->settle();
  if (!host_.empty()) {
    std::copy_n(row(first), out.size(), out.data());
    return;
  }
  device_->read_settled(out.data(), row(first), out.size_bytes());
}

void CudaRows::write(std::int32_t first, std::span<const float> in) {
  device_->copy_in(row(first), in.data(), in.size_bytes());
  device_->wait();  // the caller may reuse `in`
}

void CudaRows::copy(const RowStore& source, std::int32_t from, std::int32_t to, std::int32_t rows) {
  const auto& other = static_cast<const CudaRows&>(source);
  FT_ASSERT(other.width_ == width_);
  device_->copy(row(to), other.row(from),
                static_cast<std::size_t>(rows) * static_cast<std::size_t>(width_) * sizeof(float));
}

}  // namespace ft::cuda
