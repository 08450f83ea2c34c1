#include "backends/cuda/executable.h"

#include <algorithm>
#include <numeric>

#include "backends/host_rows.h"
#include "base/assert.h"
#include "format/out_of_memory.h"
#include "program/check.h"

namespace ft::cuda {
namespace {

constexpr int kGraphRows = 64;   // steps of more rows are launched one by one: their kernels are long
constexpr int kSeenOften = 4;    // a shape that comes less often is not worth the milliseconds of a graph
constexpr int kMostGraphs = 64;  // of one executable; then all are made anew

}  // namespace

CudaExecutable::CudaExecutable(std::shared_ptr<Device> device, std::shared_ptr<WeightStore> weights,
                               const CompileOptions& options, int kv_bits)
    : device_(std::move(device)), weights_(std::move(weights)), options_(options), kv_bits_(kv_bits) {}

std::int64_t CudaExecutable::packed_bytes() const {
  std::int64_t bytes = 0;
  for (const auto& matrix : packed_) bytes += matrix->bytes();
  return bytes;
}

StepResult CudaExecutable::run(const StepArgs& args, State& state) {
  const auto& own = static_cast<const CudaState&>(state);
  FT_ASSERT(static_cast<int>(args.logit_rows.size()) <= options_.max_logit_rows);
  bool moved = false;
  const StepShape shape = step_.fill(args, moved);
  if (moved) graphs_.clear();
  prepare(shape);
  const auto graph = graphs_.find({shape, &own});
  if (graph != graphs_.end()) {
    device_->launch(*graph->second);
  } else {
    enqueue(shape, own);
    record(shape, own);
  }
  device_->wait();
  StepResult result;
  if (vocabulary_ > 0 && args.logits) result.logits = step_.logits(shape.logit_rows);
  for (std::size_t i = 0; i < captures_.size(); ++i)
    capture_rows(args.capture, static_cast<int>(i), step_.capture(i, shape.rows).data());
  if (samples_) {
    sample(args);
    result.sampled = {sampled_.data(), args.samples.size()};
  }
  return result;
}

void CudaExecutable::enqueue(const StepShape& shape, const CudaState& state) {
  step_.upload(shape);
  for (const Operation& operation : operations_) operation(shape, state);
  for (std::size_t i = 0; i < captures_.size(); ++i) step_.download_capture(shape, i, captures_[i]);
  if (vocabulary_ > 0 && shape.logit_rows > 0) step_.download_logits(shape, logits_);
}

/// Memory that depends on the length of timelines.
void CudaExecutable::prepare(const StepShape& shape) {
  const std::int64_t floats = shape.rows > kSplitRows ? 0 : partial_floats_ * shape.rows * shape.splits;
  if (static_cast<std::int64_t>(partials_.bytes()) >= floats * 4) return;
  device_->wait();
  graphs_.clear();
  partials_ = {};
  partials_ = Memory(device_, static_cast<std::size_t>(floats * 4));
  if (partials_.empty())
    throw DeviceError(
        no_memory(*device_, "partial results of attention", floats * 4, "use a shorter context").message);
}

/// The step as a graph for the next one of its shape, while the GPU runs this one.
void CudaExecutable::record(const StepShape& shape, const CudaState& state) {
  if (!device_->facts().graphs || shape.rows > kGraphRows) return;
  if (++seen_[{shape, &state}] < kSeenOften) return;
  if (graphs_.size() >= kMostGraphs) {
    device_->wait();
    graphs_.clear();
  }
  device_->begin_graph();
  enqueue(shape, state);
  graphs_.emplace(GraphKey{shape, &state}, device_->end_graph());
}

void CudaExecutable::sample(const StepArgs& args) {
  const auto width = static_cast<std::size_t>(vocabulary_);
  for (std::size_t w = 0; w < args.samples.size(); ++w) {
    const SampleRow& row = args.samples[w];
    const auto count = static_cast<std::size_t>(row.drafts.count);
    const std::span<const std::int32_t> drafts =
        row.drafts.first >= 0
            ? std::span<const std::int32_t>(args.round_tokens)
                  .subspan(static_cast<std::size_t>(row.drafts.first), count)
            : step_.tokens().subspan(static_cast<std::size_t>(args.logit_rows[w]) + 1 - count, count);
    const std::span<const float> logits = step_.logits(static_cast<int>(w) + 1).subspan(w * width, width);
    sampled_[w] = ft::sample(logits, ids(), row, scratch_, drafts);
    if (row.store >= 0) args.round_tokens[static_cast<std::size_t>(row.store)] = sampled_[w];
  }
}

void CudaExecutable::add_draft_tokens(std::span<const std::int32_t> tokens) {
  if (extra_.empty()) return;
  const std::vector<std::int32_t> before(extra_.tokens().begin(), extra_.tokens().end());
  if (extra_.add(tokens)) fill_spare(before);
}

/// Packs the tiles whose places have other ids than `before`, and uploads the order of columns.
void CudaExecutable::fill_spare(std::span<const std::int32_t> before) {
  const std::span<const std::int32_t> now = extra_.tokens();
  for (std::size_t first = 0; first < now.size(); first += kTileOutputs) {
    const std::size_t count = std::min<std::size_t>(kTileOutputs, now.size() - first);
    if (!before.empty() && std::ranges::equal(before.subspan(first, count), now.subspan(first, count)))
      continue;
    weights_->pack_rows(spare_head_, now.subspan(first, count), static_cast<std::int64_t>(first),
                        *spare_matrix_);
  }
  std::vector<int> order(static_cast<std::size_t>(vocabulary_));
  std::iota(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(extra_.fixed()), 0);
  for (std::size_t i = 0; i < extra_.order().size(); ++i)
    order[extra_.fixed() + i] = static_cast<int>(fixed_columns_) + extra_.order()[i];
  device_->copy_in(order_.at(), order.data(), order.size() * sizeof(int));
  device_->wait();
}

Result<std::unique_ptr<Executable>> compile(const Program& program, const CompileOptions& options,
                                            std::shared_ptr<Device> device,
                                            std::shared_ptr<WeightStore> weights, int kv_bits) {
  using Compiled = Result<std::unique_ptr<Executable>>;
  return format::with_memory_guard("compile the program", "cuda backend", [&]() -> Compiled {
    FT_TRY(check(program));
    try {
      auto executable = std::make_unique<CudaExecutable>(device, std::move(weights), options, kv_bits);
      FT_TRY(executable->build(program));
      device->wait();
      return std::unique_ptr<Executable>(std::move(executable));
    } catch (const DeviceError& error) {
      return Error{Code::kExhausted, error.what()};
    }
  });
}

}  // namespace ft::cuda
