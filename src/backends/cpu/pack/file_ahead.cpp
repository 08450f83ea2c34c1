#include "backends/cpu/pack/file_ahead.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "backends/pinned_rows.h"
#include "base/system.h"
#include "program/row_source.h"

namespace ft::cpu {
namespace {

constexpr std::int64_t kAskedBytes = 8 << 20;

void read_rows_ahead(const Weight& weight, std::int64_t first, std::int64_t count) {
  if (weight.from != nullptr) return weight.from->read_ahead(weight.from_row + first, count);
  const auto part = [&](const std::byte* begin, std::int64_t row_bytes) {
    if (begin != nullptr) read_ahead(begin + first * row_bytes, static_cast<std::size_t>(count * row_bytes));
  };
  part(weight.data, row_data_bytes(weight));
  part(weight.scales, row_scale_bytes(weight));
  part(weight.biases, row_scale_bytes(weight));
}

}  // namespace

FileAhead::FileAhead(std::vector<const Weight*> weights) : weights_(std::move(weights)) {
  std::int64_t bytes = 0;
  for (const Weight* weight : weights_) {
    begins_.push_back(bytes);
    bytes += weight->bytes();
  }
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error&) {  // NOLINT(bugprone-empty-catch): see above
  }
}

FileAhead::~FileAhead() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  moved_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void FileAhead::reached(std::size_t index) {
  {
    const std::lock_guard lock(mutex_);
    packed_ = begins_[index];
  }
  moved_.notify_one();
}

bool FileAhead::wait_until_near(std::int64_t at) {
  std::unique_lock lock(mutex_);
  moved_.wait(lock, [&] { return ends_ || at < packed_ + kAheadBytes; });
  return !ends_;
}

void FileAhead::run() {
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    const Weight& weight = *weights_[i];
    const std::int64_t row_bytes = std::max<std::int64_t>(1, weight.bytes() / weight.rows);
    const std::int64_t rows = std::max<std::int64_t>(1, kAskedBytes / row_bytes);
    for (std::int64_t first = 0; first < weight.rows; first += rows) {
      if (!wait_until_near(begins_[i] + first * row_bytes)) return;
      read_rows_ahead(weight, first, std::min(rows, weight.rows - first));
    }
  }
}

}  // namespace ft::cpu
