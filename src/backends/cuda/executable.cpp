#include "backends/cuda/executable.h"

#include <algorithm>
#include <numeric>

#include "backends/host_rows.h"
#include "base/assert.h"
#include "format/out_of_memory.h"
#include "program/check.h"

namespace ft::cuda {
namespace {

constexpr int kSeenOften = 4;   // a shape that comes less often is not worth the milliseconds of a graph
constexpr int kMaxGraphs = 64;  // of one executable; then all are made anew

}  // namespace

CudaExecutable::CudaExecutable(std::shared_ptr<Device> device, std::shared_ptr<WeightStore> weights,
                               std::shared_ptr<RoundTokens> round, const CompileOptions& options, int kv_bits)
    : device_(std::move(device)),
      weights_(std::move(weights)),
      round_(std::move(round)),
      options_(options),
      kv_bits_(kv_bits),
      late_(device_) {}

std::int64_t CudaExecutable::packed_bytes() const {
  std::int64_t bytes = 0;
  for (const auto& matrix : packed_) bytes += matrix->bytes();
  return bytes;
}

void CudaExecutable::submit(const StepArgs& args, State& state) {
  const std::optional<DeviceSamples> kind =
      samples_ ? device_samples(args.samples, vocabulary_) : DeviceSamples::kNone;
  const bool later = samples_ && (args.samples_follow || !kind || std::ranges::any_of(args.samples, adjusts));
  bool moved = false;
  shape_ = step_.fill(args, later ? DeviceSamples::kNone : *kind, moved);
  if (moved) graphs_.clear();
  Places places{&static_cast<const CudaState&>(state),
                static_cast<const CudaRows*>(args.hidden.store),
                {},
                static_cast<const CudaRows*>(args.embeddings.store)};
  std::ranges::transform(args.capture.stores, places.captures.begin(),
                         [](const RowStore* store) { return static_cast<const CudaRows*>(store); });
  start({shape_, places});
  result_ = {};
  if (vocabulary_ > 0 && shape_.logit_rows > 0 && args.logits) {
    step_.download_logits(shape_, logits_);
    result_.logits = step_.logits(shape_.logit_rows);
  }
  if (!samples_ || args.samples_follow) return;
  later ? submit_samples(args) : expect_samples(args);
}

void CudaExecutable::submit_samples(const StepArgs& args) {
  if (!samples_) return;
  const std::optional<DeviceSamples> kind = device_samples(args.samples, vocabulary_);
  if (!kind) return sample(args);
  const SamplePlaces places = late_.fill(args.samples);
  SampleArgs own = sample_args_;
  own.step = step_.table(shape_);
  own.step.samples = places.samples;
  if (places.rows != nullptr) {
    const AdjustArgs adjust{own.step,    own.logits,    own.ids,     places.rows,
                            places.seen, places.biased, places.words};
    device_->launch({"adjust_logits", {own.parts, shape_.logit_rows}, 256}, &adjust);
    own.adjusted = places.rows, own.words = places.words;
  }
  launch_samples(own, *kind, shape_.logit_rows);
  expect_samples(args);
}

void CudaExecutable::expect_samples(const StepArgs& args) {
  result_.sampled = {step_.sampled(), args.samples.size()};
  for (const SampleRow& row : args.samples) {
    if (row.store >= 0) round_->expect(args.round_tokens, row.store);
  }
}

StepResult CudaExecutable::collect() {
  result_.waited_ns = round_->collect();
  step_.ended(), late_.ended();
  return result_;
}

void CudaExecutable::start(const GraphKey& step) {
  try {
    if (!times_.empty()) return start_timed(step);
    prepare(step.shape);
    const auto graph = graphs_.find(step);
    if (graph != graphs_.end()) return device_->launch(*graph->second);
    enqueue(step);
  } catch (const DeviceError&) {
    step_.start_again();
    throw;
  }
  record(step);
}

void CudaExecutable::enqueue(const GraphKey& step) {
  step_.fetch(step.shape);
  for (const Operation& operation : operations_) operation(step.shape, step.places);
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
void CudaExecutable::record(const GraphKey& step) {
  if (!device_->facts().graphs || step.shape.rows > kGraphRows) return;
  if (++seen_[step] < kSeenOften) return;
  record_now(step);
}

void CudaExecutable::record_now(const GraphKey& step) {
  if (graphs_.size() >= kMaxGraphs) {
    device_->wait();
    graphs_.clear();
  }
  device_->begin_graph();
  try {
    times_.empty() ? enqueue(step) : enqueue_timed(step);
  } catch (...) {
    device_->end_graph();
    throw;
  }
  graphs_.emplace(step, device_->end_graph());
}

/// On the host, with the logits as they were computed.
void CudaExecutable::sample(const StepArgs& args) {
  if (!args.logits) step_.download_logits(shape_, logits_);
  round_->collect();  // the logits are there, and tokens by place
  resolved_.assign(args.tokens.begin(), args.tokens.end());
  for (std::int32_t& token : resolved_) {
    if (token < 0) token = args.round_tokens[static_cast<std::size_t>(-1 - token)];
  }
  const auto width = static_cast<std::size_t>(vocabulary_);
  for (std::size_t w = 0; w < args.samples.size(); ++w) {
    const SampleRow& row = args.samples[w];
    const std::span<const float> logits = step_.logits(static_cast<int>(w) + 1).subspan(w * width, width);
    const std::int32_t token = ft::sample(logits, ids(), row, scratch_, drafts_of(args, resolved_, w));
    step_.sampled()[w] = token;
    if (row.store >= 0) round_->set(args.round_tokens, row.store, token);
  }
  result_.sampled = {step_.sampled(), args.samples.size()};
}

void CudaExecutable::add_draft_tokens(std::span<const std::int32_t> tokens) {
  if (extra_.empty()) return;
  const std::vector<std::int32_t> before(extra_.tokens().begin(), extra_.tokens().end());
  if (extra_.add(tokens)) fill_extra_head(before);
}

/// Packs the tiles whose places have other ids than `before`, and uploads the order of columns.
void CudaExecutable::fill_extra_head(std::span<const std::int32_t> before) {
  const std::span<const std::int32_t> now = extra_.tokens();
  for (std::size_t first = 0; first < now.size(); first += kTileOutputs) {
    const std::size_t count = std::min<std::size_t>(kTileOutputs, now.size() - first);
    if (!before.empty() && std::ranges::equal(before.subspan(first, count), now.subspan(first, count)))
      continue;
    weights_->pack_rows(extra_head_, now.subspan(first, count), static_cast<std::int64_t>(first),
                        *extra_matrix_);
  }
  std::vector<int> order(static_cast<std::size_t>(vocabulary_));
  std::iota(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(extra_.fixed()), 0);
  for (std::size_t i = 0; i < extra_.order().size(); ++i)
    order[extra_.fixed() + i] = static_cast<int>(fixed_columns_) + extra_.order()[i];
  device_->copy_in(order_.at(), order.data(), order.size() * sizeof(int));
  device_->copy_in(id_memory_.at(), ids().data(), ids().size() * sizeof(int));
  device_->wait();
}

Result<std::unique_ptr<Executable>> compile(const Program& program, const CompileOptions& options,
                                            std::shared_ptr<Device> device,
                                            std::shared_ptr<WeightStore> weights,
                                            std::shared_ptr<RoundTokens> round, int kv_bits) {
  using Compiled = Result<std::unique_ptr<Executable>>;
  return format::with_memory_guard("compile the program", "cuda backend", [&]() -> Compiled {
    FT_TRY(check(program));
    FT_TRY(check_supported(program));
    try {
      auto executable =
          std::make_unique<CudaExecutable>(device, std::move(weights), std::move(round), options, kv_bits);
      FT_TRY(executable->build(program));
      device->wait();
      return std::unique_ptr<Executable>(std::move(executable));
    } catch (const DeviceError& error) {
      return Error{Code::kExhausted, error.what()};
    } catch (const BackendLost& error) {
      return Error{Code::kIo, error.what()};
    }
  });
}

}  // namespace ft::cuda
