#include "backends/cuda/executable.h"

#include <algorithm>

#include "backends/host_rows.h"

namespace ft::cuda {
namespace {

constexpr int kSeenOften = 4;   // a shape that comes less often is not worth the milliseconds of a graph
constexpr int kMaxGraphs = 64;  // of one executable; then all are made anew

}  // namespace

CudaExecutable::CudaExecutable(std::shared_ptr<Device> device, std::shared_ptr<RoundTokens> round,
                               CompiledProgram compiled, const Program& program, Profiler* profiler)
    : device_(std::move(device)),
      round_(std::move(round)),
      compiled_(std::move(compiled)),
      late_(device_),
      profiler_(profiler) {
  profile(program);
  scratch_.reserve(static_cast<std::size_t>(compiled_.vocabulary));
  if (compiled_.walk)
    factors_ =
        HostMemory(device_, static_cast<std::size_t>(compiled_.walk->rows * compiled_.walk->args.rank) * 4);
}

std::int64_t CudaExecutable::packed_bytes() const {
  std::int64_t bytes = 0;
  for (const auto& matrix : compiled_.packed) bytes += matrix->bytes();
  return bytes;
}

void CudaExecutable::submit(const StepArgs& args, State& state) {
  const std::optional<DeviceSamples> kind = compiled_.samples ? kind_of(args.samples) : DeviceSamples::kNone;
  const bool later =
      compiled_.samples && (args.samples_follow || !kind || std::ranges::any_of(args.samples, adjusts));
  bool moved = false;
  shape_ = compiled_.step.fill(args, later ? DeviceSamples::kNone : *kind, moved);
  if (moved) graphs_.clear();
  const auto rows_of = [](const RowStore* store) { return static_cast<const CudaRows*>(store); };
  StepPlaces places{&static_cast<const CudaState&>(state), {}, {}, rows_of(args.embeddings.store)};
  std::ranges::transform(args.more_hidden, places.hidden.begin(), rows_of);
  places.hidden[0] = rows_of(args.hidden.store);
  std::ranges::transform(args.capture.stores, places.captures.begin(), rows_of);
  start({shape_, places});
  result_ = {};
  if (compiled_.vocabulary > 0 && shape_.logit_rows > 0 && args.logits) {
    compiled_.step.download_logits(shape_, compiled_.logits);
    result_.logits = compiled_.step.logits(shape_.logit_rows);
    if (compiled_.walk) download_factors(args);
  }
  if (!compiled_.samples || args.samples_follow) return;
  later ? submit_samples(args) : expect_samples(args);
}

void CudaExecutable::submit_samples(const StepArgs& args) {
  if (!compiled_.samples) return;
  const std::optional<DeviceSamples> kind = kind_of(args.samples);
  if (!kind) return sample(args);
  const SamplePlaces places = late_.fill(args.samples);
  SampleArgs own = compiled_.sample_args;
  own.step = compiled_.step.table(shape_);
  own.step.samples = places.samples;
  if (places.rows != nullptr) {
    const AdjustArgs adjust{own.step,    own.logits,    own.ids,     places.rows,
                            places.seen, places.biased, places.words};
    device_->launch({"adjust_logits", {own.parts, shape_.logit_rows}, 256}, &adjust);
    own.adjusted = places.rows, own.words = places.words;
  }
  if (compiled_.walk) {
    launch_walk(*device_, compiled_.walk->args, own, shape_);
  } else {
    launch_samples(*device_, own, *kind, shape_.logit_rows);
  }
  expect_samples(args);
}

/// A walk samples among few scores, so the device can do it whatever the filters are.
std::optional<DeviceSamples> CudaExecutable::kind_of(std::span<const SampleRow> samples) const {
  if (!compiled_.walk) return device_samples(samples, compiled_.vocabulary);
  return samples.empty() ? DeviceSamples::kNone : DeviceSamples::kGreedy;
}

/// For walk_candidates(), which may read them after collect().
void CudaExecutable::download_factors(const StepArgs& args) {
  const WalkArgs& walk = compiled_.walk->args;
  logit_rows_.assign(args.logit_rows.begin(), args.logit_rows.end());
  if (walk.factors.data == nullptr) return;
  const auto rank = static_cast<std::size_t>(walk.rank);
  for (std::size_t w = 0; w < logit_rows_.size(); ++w) {
    device_->copy_out(factors_.at<float>() + w * rank,
                      walk.factors.data + std::int64_t{logit_rows_[w]} * walk.factors.stride,
                      rank * sizeof(float));
  }
}

void CudaExecutable::walk_candidates(std::size_t row, std::int32_t predecessor,
                                     std::span<const std::uint32_t> mask, WalkCandidates& out) const {
  const auto width = static_cast<std::size_t>(compiled_.vocabulary);
  const WalkArgs& walk = compiled_.walk->args;
  const float* const factors = walk.factors.data == nullptr
                                   ? nullptr
                                   : factors_.at<const float>() + row * static_cast<std::size_t>(walk.rank);
  compiled_.walk->host.candidates(
      compiled_.step.logits(static_cast<int>(row) + 1).subspan(row * width, width), ids(), mask, factors,
      predecessor, out);
}

void CudaExecutable::expect_samples(const StepArgs& args) {
  result_.sampled = {compiled_.step.sampled(), args.samples.size()};
  for (const SampleRow& row : args.samples) {
    if (row.store >= 0) round_->expect(args.round_tokens, row.store);
  }
}

StepResult CudaExecutable::collect() {
  result_.waited_ns = round_->collect();
  compiled_.step.ended(), late_.ended();
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
    compiled_.step.start_again();
    throw;
  }
  record(step);
}

StepRun CudaExecutable::run_of(const GraphKey& step) {
  return {step.shape, step.places, compiled_.step.table(step.shape), partials_.at<float>(), *device_};
}

void CudaExecutable::enqueue(const GraphKey& step) {
  compiled_.step.fetch(step.shape);
  const StepRun run = run_of(step);
  for (const Operation& operation : compiled_.operations) operation(run);
}

/// Memory that depends on the length of timelines.
void CudaExecutable::prepare(const StepShape& shape) {
  const std::int64_t floats =
      shape.rows > kSplitRows ? 0 : compiled_.partial_floats * shape.rows * shape.splits;
  if (static_cast<std::int64_t>(partials_.bytes()) >= floats * 4) return;
  device_->wait();
  graphs_.clear();
  partials_ = {};
  partials_ = Memory(device_, static_cast<std::size_t>(floats * 4));
  if (partials_.empty())
    throw DeviceError(
        no_memory(*device_, "partial results of attention", floats * 4, "use a shorter context").message);
}

/// Records the step as a graph for the next step of its shape, while the GPU runs this one.
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
  if (!args.logits) compiled_.step.download_logits(shape_, compiled_.logits);
  round_->collect();  // now the logits and the tokens by place are ready
  resolved_.assign(args.tokens.begin(), args.tokens.end());
  for (std::int32_t& token : resolved_) token = resolved(args, token);
  const auto width = static_cast<std::size_t>(compiled_.vocabulary);
  for (std::size_t w = 0; w < args.samples.size(); ++w) {
    const SampleRow& row = args.samples[w];
    const std::span<const float> logits =
        compiled_.step.logits(static_cast<int>(w) + 1).subspan(w * width, width);
    const std::int32_t token = ft::sample(logits, ids(), row, scratch_, drafts_of(args, resolved_, w));
    compiled_.step.sampled()[w] = token;
    if (row.store >= 0) round_->set(args.round_tokens, row.store, token);
  }
  result_.sampled = {compiled_.step.sampled(), args.samples.size()};
}

}  // namespace ft::cuda
