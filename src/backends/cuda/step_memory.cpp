#include "backends/cuda/step_memory.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "backends/cuda/sample_memory.h"
#include "base/assert.h"
#include "sampling/filters.h"

namespace ft::cuda {
namespace {

constexpr std::int64_t kTableUnit =
    256;  // parts of the table begin at multiples of 16, its size at one of this
constexpr std::int64_t kFirstBlocks = 4096;
constexpr int kTurns = 16;

/// The pinned twin of the table is written through the same structure that kernels read.
template <class T>
T* writable(const T* part) {
  return const_cast<T*>(part);  // NOLINT(*-const-cast)
}

}  // namespace

int splits_of(std::int64_t position) {
  if (position < 4096) return static_cast<int>(position / 128) + 1;
  if (position < 16384) return 32 + static_cast<int>((position - 4096) / 512) + 1;
  if (position < 65536) return 56 + static_cast<int>((position - 16384) / 1024) + 1;
  return 104 + static_cast<int>((position - 65536) / 2048) + 1;
}

std::optional<DeviceSamples> device_samples(std::span<const SampleRow> samples, std::int64_t columns) {
  DeviceSamples kind = DeviceSamples::kNone;
  for (const SampleRow& row : samples) {
    const SamplingParams& sampler = *row.sampler;
    DeviceSamples own = DeviceSamples::kGreedy;
    if (sampler.temperature > 0) {
      own = DeviceSamples::kDraws;
      if (filters(sampler, static_cast<std::size_t>(columns))) {
        if (sampler.top_k <= 0 || sampler.top_k > kMaxTopK || sampler.top_k >= columns) return std::nullopt;
        own = DeviceSamples::kTopK;
      }
    }
    kind = std::max(kind, own);
  }
  return kind;
}

Status StepMemory::make(const std::shared_ptr<Device>& device, const CompileOptions& options,
                        std::shared_ptr<RoundTokens> round, std::int64_t vocabulary) {
  device_ = device, options_ = options, round_ = std::move(round), vocabulary_ = vocabulary;
  const auto numbers = [&](std::int64_t count) {
    return HostMemory(device_, static_cast<std::size_t>(std::max<std::int64_t>(count, 1)) * 4);
  };
  logits_ = numbers(options.max_logit_rows * vocabulary);
  sampled_ = numbers(options.max_logit_rows);
  counter_ = Memory(device_, sizeof(int));
  if (counter_.empty())
    return no_memory(*device_, "a step's table", sizeof(int), "use a smaller prompt chunk");
  device_->clear(counter_.at(), sizeof(int));
  if (!reserve(kFirstBlocks) || logits_.empty() || sampled_.empty())
    return Error{Code::kExhausted,
                 "cuda backend: no pinned host memory for a step; use a smaller prompt chunk"};
  return {};
}

bool StepMemory::reserve(std::int64_t blocks) {
  StepShape largest;
  largest.rows = largest.segments = options_.max_rows;
  largest.logit_rows = options_.max_logit_rows;
  const StepTable table = table_at(nullptr, largest);
  blocks_ = blocks;
  turn_bytes_ = round_up(reinterpret_cast<std::intptr_t>(table.blocks) + blocks * 4, kTableUnit);
  ring_ = {}, table_ = {};
  ring_ = HostMemory(device_, static_cast<std::size_t>(turn_bytes_ * kTurns));
  table_ = Memory(device_, static_cast<std::size_t>(turn_bytes_));
  return !ring_.empty() && !table_.empty();
}

/// The parts are side by side, each as long as the shape needs.
StepTable StepMemory::table_at(std::byte* base, const StepShape& shape) const {
  StepTable table{};
  auto at = reinterpret_cast<std::uintptr_t>(base);
  const auto take = [&](auto& part, int count) {
    using Part = std::remove_reference_t<decltype(part)>;
    part = reinterpret_cast<Part>(at);
    at += static_cast<std::uintptr_t>(
        round_up(std::int64_t{count} * static_cast<std::int64_t>(sizeof *part), 16));
  };
  take(table.tokens, shape.rows), take(table.positions, shape.rows);
  take(table.hidden_places, shape.rows), take(table.capture_places, shape.rows);
  take(table.embedding_places, shape.rows), take(table.coordinates, 3 * shape.rows);
  take(table.logit_rows, shape.logit_rows);
  take(table.segments, shape.segments);
  take(table.samples, shape.logit_rows);
  take(table.blocks, 0);
  table.round = round_->device();
  return table;
}

StepTable StepMemory::table(const StepShape& shape) const { return table_at(table_.at(), shape); }

StepShape StepMemory::fill(const StepArgs& args, DeviceSamples samples, bool& moved) {
  StepShape shape;
  std::int64_t blocks = 0, last_position = 0;
  for (const Segment& segment : args.segments) {
    blocks += std::ssize(segment.sequence.blocks);
    shape.rows += segment.rows;
    last_position = std::max(last_position, segment.position + segment.rows - 1);
    shape.most_rows = std::max(shape.most_rows, segment.rows);
  }
  FT_ASSERT(shape.rows <= options_.max_rows);
  FT_ASSERT(static_cast<int>(args.logit_rows.size()) <= options_.max_logit_rows);
  if (blocks > blocks_) {
    device_->wait();
    if (!reserve(static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(blocks)))))
      throw DeviceError("cuda backend: no memory for the table of a longer timeline");
    moved = true;
  }
  if (busy_ == kTurns) {
    device_->wait();
    busy_ = 0;
  }
  ++busy_;
  shape.segments = static_cast<int>(args.segments.size());
  shape.logit_rows = static_cast<int>(args.logit_rows.size());
  shape.samples = samples;
  shape.most_rows = static_cast<int>(std::bit_ceil(static_cast<unsigned>(shape.most_rows)));
  shape.splits = static_cast<int>(std::bit_ceil(static_cast<unsigned>(splits_of(last_position))));
  const StepTable host = table_at(ring_.at(turn_ * turn_bytes_), shape);
  const std::int64_t fixed = reinterpret_cast<std::intptr_t>(table_at(nullptr, shape).blocks);
  const auto used = static_cast<std::uint64_t>(std::max<std::int64_t>(blocks * 4, 64));
  shape.table_bytes = std::min(turn_bytes_, fixed + static_cast<std::int64_t>(std::bit_ceil(used)));
  turn_ = (turn_ + 1) % kTurns;
  fill_segments(args, host);
  fill_rows(args, host);
  if (samples != DeviceSamples::kNone) std::ranges::transform(args.samples, writable(host.samples), place_of);
  return shape;
}

void StepMemory::fill_segments(const StepArgs& args, const StepTable& host) const {
  SegmentPlace* to = writable(host.segments);
  int* const positions = writable(host.positions);
  int* const places = writable(host.blocks);
  int* const coordinates = writable(host.coordinates);
  std::int64_t first_block = 0;
  int row = 0;
  for (const Segment& segment : args.segments) {
    const SequenceView& sequence = segment.sequence;
    *to++ = {row,           segment.rows,    segment.confirmed, static_cast<int>(segment.position),
             sequence.slot, sequence.replay, sequence.tape,     static_cast<int>(first_block)};
    std::ranges::copy(sequence.blocks, places + first_block);
    first_block += std::ssize(sequence.blocks);
    for (int r = 0; r < segment.rows; ++r, ++row) {
      positions[row] = static_cast<int>(segment.position) + r;
      for (std::size_t axis = 0; axis < 3; ++axis)
        coordinates[3 * static_cast<std::size_t>(row) + axis] =
            args.coordinates.empty() ? positions[row] : args.coordinates[static_cast<std::size_t>(row)][axis];
    }
  }
}

void StepMemory::fill_rows(const StepArgs& args, const StepTable& host) {
  std::ranges::copy(args.tokens, writable(host.tokens));
  if (args.hidden.store != nullptr) std::ranges::copy(args.hidden.places, writable(host.hidden_places));
  if (!args.capture.places.empty()) std::ranges::copy(args.capture.places, writable(host.capture_places));
  if (args.embeddings.store != nullptr)
    std::ranges::copy(args.embeddings.places, writable(host.embedding_places));
  std::ranges::copy(args.logit_rows, writable(host.logit_rows));
}

void StepMemory::fetch(const StepShape& shape) {
  const FetchArgs args{
      ring_.at<unsigned char>(),     table_.at<unsigned char>(),         counter_.at<int>(), kTurns,
      static_cast<int>(turn_bytes_), static_cast<int>(shape.table_bytes)};
  device_->launch({"fetch", {1}, 256, 0, false, true}, &args);
}

void StepMemory::start_again() {
  device_->wait();
  busy_ = turn_ = 0;
  device_->clear(counter_.at(), sizeof(int));
}

void StepMemory::download_logits(const StepShape& shape, View from) {
  const auto line = static_cast<std::size_t>(vocabulary_) * sizeof(float);
  float* const to = logits_.at<float>();
  if (from.stride == vocabulary_)
    return device_->copy_out(to, from.data, line * static_cast<std::size_t>(shape.logit_rows));
  for (int r = 0; r < shape.logit_rows; ++r)
    device_->copy_out(to + r * vocabulary_, from.data + std::int64_t{r} * from.stride, line);
}

std::span<const float> StepMemory::logits(int logit_rows) const {
  return {logits_.at<const float>(), static_cast<std::size_t>(logit_rows * vocabulary_)};
}

}  // namespace ft::cuda
