#include "backends/cuda/step_memory.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "backends/host_rows.h"
#include "base/assert.h"

namespace ft::cuda {
namespace {

constexpr std::int64_t kUnit = 256;  // parts of the table begin at multiples of it
constexpr std::int64_t kFirstBlocks = 4096;

}  // namespace

int splits_of(std::int64_t position) {
  if (position < 4096) return static_cast<int>(position / 128) + 1;
  if (position < 16384) return 32 + static_cast<int>((position - 4096) / 512) + 1;
  if (position < 65536) return 56 + static_cast<int>((position - 16384) / 1024) + 1;
  return 104 + static_cast<int>((position - 65536) / 2048) + 1;
}

Status StepMemory::make(const std::shared_ptr<Device>& device, const CompileOptions& options,
                        int hidden_width, std::span<const int> capture_widths, std::int64_t vocabulary) {
  device_ = device, options_ = options;
  hidden_width_ = hidden_width, vocabulary_ = vocabulary;
  capture_widths_.assign(capture_widths.begin(), capture_widths.end());
  const auto floats = [&](std::int64_t count) {
    return HostMemory(device_, static_cast<std::size_t>(std::max<std::int64_t>(count, 1)) * sizeof(float));
  };
  hidden_ = floats(std::int64_t{options.max_rows} * hidden_width);
  bool captures = true;
  for (const int width : capture_widths_) {
    captures_.push_back(floats(std::int64_t{options.max_rows} * width));
    captures = captures && !captures_.back().empty();
  }
  logits_ = floats(options.max_logit_rows * vocabulary);
  if (!reserve(kFirstBlocks) || hidden_.empty() || !captures || logits_.empty())
    return Error{Code::kExhausted,
                 "cuda backend: no pinned host memory for a step; use a smaller prompt chunk"};
  return {};
}

bool StepMemory::reserve(std::int64_t blocks) {
  const std::int64_t rows = round_up(options_.max_rows, 64),
                     logit_rows = round_up(options_.max_logit_rows, 64);
  const std::int64_t segments = rows * static_cast<std::int64_t>(sizeof(SegmentPlace));
  fixed_bytes_ = round_up((2 * rows + logit_rows) * 4 + segments, kUnit);
  blocks_ = blocks;
  const auto bytes = static_cast<std::size_t>(fixed_bytes_ + blocks * 4);
  host_ = {}, device_table_ = {};
  host_ = HostMemory(device_, bytes);
  device_table_ = Memory(device_, bytes);
  if (host_.empty() || device_table_.empty()) return false;
  table_.tokens = device_table_.at<int>();
  table_.positions = table_.tokens + rows;
  table_.logit_rows = table_.positions + rows;
  table_.segments = reinterpret_cast<const SegmentPlace*>(table_.logit_rows + logit_rows);
  table_.blocks = device_table_.at<int>(fixed_bytes_);
  return true;
}

StepShape StepMemory::fill(const StepArgs& args, bool& moved) {
  std::int64_t blocks = 0;
  for (const Segment& segment : args.segments) blocks += std::ssize(segment.sequence.blocks);
  if (blocks > blocks_) {
    device_->wait();
    if (!reserve(static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(blocks)))))
      throw DeviceError("cuda backend: no memory for the table of a longer timeline");
    moved = true;
  }
  StepShape shape;
  const auto host = [&](const auto* device) {
    const auto* at = reinterpret_cast<const std::byte*>(device);
    using Part = std::remove_const_t<std::remove_pointer_t<decltype(device)>>;
    return host_.at<Part>(at - device_table_.at());
  };
  int* const tokens = host(table_.tokens);
  int* const positions = host(table_.positions);
  SegmentPlace* const segments = host(table_.segments);
  int* const places = host(table_.blocks);
  std::int64_t first_block = 0, last_position = 0;
  for (const Segment& segment : args.segments) {
    FT_ASSERT(shape.rows + segment.rows <= options_.max_rows);
    const SequenceView& sequence = segment.sequence;
    segments[shape.segments++] = {
        shape.rows,    segment.rows,    segment.confirmed, static_cast<int>(segment.position),
        sequence.slot, sequence.replay, sequence.tape,     static_cast<int>(first_block)};
    std::ranges::copy(sequence.blocks, places + first_block);
    first_block += std::ssize(sequence.blocks);
    for (int r = 0; r < segment.rows; ++r) positions[shape.rows++] = static_cast<int>(segment.position) + r;
    last_position = std::max(last_position, segment.position + segment.rows - 1);
    shape.most_rows = std::max(shape.most_rows, segment.rows);
  }
  for (std::size_t r = 0; r < args.tokens.size(); ++r) {
    const std::int32_t token = args.tokens[r];
    tokens[r] = token < 0 ? args.round_tokens[static_cast<std::size_t>(-1 - token)] : token;
  }
  std::ranges::copy(args.logit_rows, host(table_.logit_rows));
  shape.logit_rows = static_cast<int>(args.logit_rows.size());
  shape.most_rows = static_cast<int>(std::bit_ceil(static_cast<unsigned>(shape.most_rows)));
  shape.splits = static_cast<int>(std::bit_ceil(static_cast<unsigned>(splits_of(last_position))));
  const auto used = static_cast<std::uint64_t>(std::max<std::int64_t>(first_block * 4, 1024));
  shape.table_bytes = fixed_bytes_ + std::min(blocks_ * 4, static_cast<std::int64_t>(std::bit_ceil(used)));
  if (hidden_width_ > 0) {
    for (int r = 0; r < shape.rows; ++r)
      std::copy_n(host_row(args.hidden, r), hidden_width_,
                  hidden_.at<float>() + std::int64_t{r} * hidden_width_);
  }
  return shape;
}

void StepMemory::upload(const StepShape& shape) {
  device_->copy_in(device_table_.at(), host_.at(), static_cast<std::size_t>(shape.table_bytes));
}

/// Each Input of a program takes the first columns of the same rows.
void StepMemory::upload_hidden(const StepShape& shape, View to) {
  const auto line = static_cast<std::size_t>(to.width) * sizeof(float);
  if (to.stride == to.width && to.width == hidden_width_)
    return device_->copy_in(to.data, hidden_.at(), line * static_cast<std::size_t>(shape.rows));
  for (int r = 0; r < shape.rows; ++r) {
    const float* from = hidden_.at<float>() + std::int64_t{r} * hidden_width_;
    device_->copy_in(to.data + std::int64_t{r} * to.stride, from, line);
  }
}

void StepMemory::download(float* to, std::int64_t width, View from, int rows) {
  const auto line = static_cast<std::size_t>(width) * sizeof(float);
  if (from.stride == width) return device_->copy_out(to, from.data, line * static_cast<std::size_t>(rows));
  for (int r = 0; r < rows; ++r)
    device_->copy_out(to + r * width, from.data + std::int64_t{r} * from.stride, line);
}

void StepMemory::download_capture(const StepShape& shape, std::size_t number, View from) {
  download(captures_[number].at<float>(), capture_widths_[number], from, shape.rows);
}
void StepMemory::download_logits(const StepShape& shape, View from) {
  download(logits_.at<float>(), vocabulary_, from, shape.logit_rows);
}

std::span<const float> StepMemory::logits(int logit_rows) const {
  return {logits_.at<const float>(), static_cast<std::size_t>(logit_rows * vocabulary_)};
}
std::span<const std::int32_t> StepMemory::tokens() const {
  return {host_.at<const std::int32_t>(), static_cast<std::size_t>(options_.max_rows)};
}
std::span<const float> StepMemory::capture(std::size_t number, int rows) const {
  return {captures_[number].at<const float>(),
          static_cast<std::size_t>(std::int64_t{rows} * capture_widths_[number])};
}

}  // namespace ft::cuda
