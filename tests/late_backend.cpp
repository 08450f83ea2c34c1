#include "tests/late_backend.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "program/forwarding_backend.h"

namespace ft::test {
namespace {

constexpr std::int32_t kNonsense = -1'000'000;

/// The steps that were submitted and have not run yet, and the device's copies of token buffers.
class Queue {
 public:
  explicit Queue(LateReport& report) : report_(report) {}

  void add(std::function<void()> work, bool step = false) {
    work_.push_back(std::move(work));
    steps_ += step ? 1 : 0;
    report_.waiting = steps_;
  }
  /// Runs all steps; then the host has the tokens that they stored.
  void drain() {
    if (report_.lost) {
      work_.clear(), stored_.clear(), steps_ = report_.waiting = 0;
      throw BackendLost("the device fell off the bus");
    }
    if (steps_ > 0) {
      report_.collects += 1, report_.steps += steps_;
      report_.most_waiting = std::max(report_.most_waiting, steps_);
    }
    steps_ = report_.waiting = 0;
    const auto work = std::exchange(work_, {});
    const auto stored = std::exchange(stored_, {});
    for (const auto& each : work) each();
    for (std::int32_t* const place : stored) {
      for (const auto& [host, device] : tokens_) {
        const auto at = static_cast<std::size_t>(place - host);
        if (place >= host && at < device.size()) *place = device[at];
      }
    }
  }
  std::span<std::int32_t> device(std::span<std::int32_t> host) {
    std::vector<std::int32_t>& own = tokens_[host.data()];
    if (own.size() != host.size()) own.assign(host.size(), kNonsense);
    return own;
  }
  void count_late_samples() { ++report_.late_samples; }
  void will_store(std::int32_t* place) {
    *place = kNonsense;
    stored_.push_back(place);
  }

 private:
  LateReport& report_;
  std::vector<std::function<void()>> work_;
  int steps_ = 0;
  std::map<std::int32_t*, std::vector<std::int32_t>> tokens_;  // by the host's buffer
  std::vector<std::int32_t*> stored_;
};

class LateRows final : public RowStore {
 public:
  LateRows(std::unique_ptr<RowStore> inner, std::shared_ptr<Queue> queue)
      : inner_(std::move(inner)), queue_(std::move(queue)) {}
  int width() const override { return inner_->width(); }
  int capacity() const override { return inner_->capacity(); }
  void read(std::int32_t first, std::span<float> out) const override {
    queue_->drain();
    inner_->read(first, out);
  }
  void write(std::int32_t first, std::span<const float> in) override {
    queue_->add(
        [this, first, rows = std::vector<float>(in.begin(), in.end())] { inner_->write(first, rows); });
  }
  void copy(const RowStore& source, std::int32_t from, std::int32_t to, std::int32_t rows) override {
    const RowStore& other = *static_cast<const LateRows&>(source).inner_;
    queue_->add([this, &other, from, to, rows] { inner_->copy(other, from, to, rows); });
  }
  RowStore* inner() const { return inner_.get(); }

 private:
  std::unique_ptr<RowStore> inner_;
  std::shared_ptr<Queue> queue_;
};

class LateState final : public State {
 public:
  LateState(std::unique_ptr<State> inner, std::shared_ptr<Queue> queue)
      : inner_(std::move(inner)), queue_(std::move(queue)) {}
  void copy_block(std::int32_t from, std::int32_t to) override {
    queue_->add([this, from, to] { inner_->copy_block(from, to); });
  }
  void copy_slot(std::int32_t from, std::int32_t to) override {
    queue_->add([this, from, to] { inner_->copy_slot(from, to); });
  }
  std::int64_t bytes() const override { return inner_->bytes(); }
  std::int64_t block_bytes() const override { return inner_->block_bytes(); }
  std::int64_t slot_bytes() const override { return inner_->slot_bytes(); }
  SlidingWindowPart sliding_window_part() const override { return inner_->sliding_window_part(); }
  void release_sliding_window(std::int32_t block) override {
    queue_->add([this, block] { inner_->release_sliding_window(block); });
  }
  void settle() const override { queue_->drain(); }
  void read_block(std::int32_t block, std::span<std::byte> out) const override {
    inner_->read_block(block, out);
  }
  void write_block(std::int32_t block, std::span<const std::byte> in) override {
    queue_->drain();
    inner_->write_block(block, in);
  }
  void read_slot(std::int32_t slot, std::span<std::byte> out) const override { inner_->read_slot(slot, out); }
  void write_slot(std::int32_t slot, std::span<const std::byte> in) override {
    queue_->drain();
    inner_->write_slot(slot, in);
  }
  State& inner() { return *inner_; }

 private:
  std::unique_ptr<State> inner_;
  std::shared_ptr<Queue> queue_;
};

/// A step's arguments with everything that they point to.
struct Copied {
  std::vector<std::int32_t> tokens, logit_rows, hidden_places, capture_places, embedding_places;
  std::vector<Coordinates> coordinates;
  std::vector<Segment> segments;
  std::vector<std::vector<std::int32_t>> blocks;
  std::vector<SampleRow> samples;
  std::vector<SamplingParams> samplers;
  std::vector<std::vector<TokenCount>> histories;
  std::vector<std::vector<LogitBias>> biases;
  std::vector<std::vector<std::uint32_t>> masks;
  StepArgs args;

  explicit Copied(const StepArgs& from)
      : tokens(from.tokens.begin(), from.tokens.end()),
        logit_rows(from.logit_rows.begin(), from.logit_rows.end()),
        hidden_places(from.hidden.places.begin(), from.hidden.places.end()),
        capture_places(from.capture.places.begin(), from.capture.places.end()),
        embedding_places(from.embeddings.places.begin(), from.embeddings.places.end()),
        coordinates(from.coordinates.begin(), from.coordinates.end()),
        segments(from.segments.begin(), from.segments.end()),
        args(from) {
    for (const Segment& segment : segments)
      blocks.emplace_back(segment.sequence.blocks.begin(), segment.sequence.blocks.end());
    for (std::size_t i = 0; i < segments.size(); ++i) segments[i].sequence.blocks = blocks[i];
    args.tokens = tokens, args.logit_rows = logit_rows, args.segments = segments;
    add_samples(from.samples);
    const auto inner = [](const RowPlaces& places, std::span<const std::int32_t> copied) {
      return places.store != nullptr ? RowPlaces{static_cast<LateRows*>(places.store)->inner(), copied}
                                     : RowPlaces{};
    };
    args.hidden = inner(from.hidden, hidden_places);
    for (RowStore*& store : args.more_hidden) {
      if (store != nullptr) store = static_cast<LateRows*>(store)->inner();
    }
    args.capture.places = capture_places;
    for (RowStore*& store : args.capture.stores) {
      if (store != nullptr) store = static_cast<LateRows*>(store)->inner();
    }
    args.embeddings = inner(from.embeddings, embedding_places);
    args.coordinates = coordinates;
  }
  void add_samples(std::span<const SampleRow> rows) {
    samples.assign(rows.begin(), rows.end());
    for (const SampleRow& row : samples) {
      samplers.push_back(*row.sampler);
      histories.emplace_back(row.history.begin(), row.history.end());
      biases.emplace_back(row.bias.begin(), row.bias.end());
      masks.emplace_back(row.mask.begin(), row.mask.end());
    }
    for (std::size_t i = 0; i < samples.size(); ++i) {
      SampleRow& row = samples[i];
      row.sampler = &samplers[i], row.history = histories[i], row.bias = biases[i], row.mask = masks[i];
    }
    args.samples = samples;
  }
  Copied(const Copied&) = delete;
  Copied& operator=(const Copied&) = delete;
};

class LateExecutable final : public ForwardingExecutable {
 public:
  LateExecutable(std::unique_ptr<Executable> executable, std::shared_ptr<Queue> queue)
      : ForwardingExecutable(std::move(executable)), queue_(std::move(queue)) {}

  void submit(const StepArgs& args, State& state) override {
    const auto step = std::make_shared<Copied>(args);
    FT_ASSERT(last_ == nullptr && (!args.samples_follow || args.samples.empty()));
    step->args.round_tokens = queue_->device(args.round_tokens);
    if (args.samples_follow) last_ = step;
    expect_tokens(args);
    std::fill(logits_.begin(), logits_.end(), std::numeric_limits<float>::quiet_NaN());
    std::fill(sampled_.begin(), sampled_.end(), kNonsense);
    State& inner_state = static_cast<LateState&>(state).inner();
    queue_->add(
        [this, step, &inner_state] {
          FT_ASSERT(!step->args.samples_follow);
          const StepResult result = inner().run(step->args, inner_state);
          logits_.assign(result.logits.begin(), result.logits.end());
          sampled_.assign(result.sampled.begin(), result.sampled.end());
        },
        true);
  }
  bool samples_later() const override { return true; }
  void submit_samples(const StepArgs& args) override {
    FT_ASSERT(last_ != nullptr && args.samples.size() == last_->logit_rows.size());
    last_->add_samples(args.samples);
    last_->args.samples_follow = false;
    last_.reset();
    expect_tokens(args);
    queue_->count_late_samples();
  }
  StepResult collect() override {
    queue_->drain();
    return {logits_, sampled_, kWaitedNs};
  }
  std::span<const std::int32_t> ids() const override {
    queue_->drain();
    return ForwardingExecutable::ids();
  }
  void add_draft_tokens(std::span<const std::int32_t> tokens) override {
    queue_->add([this, copy = std::vector<std::int32_t>(tokens.begin(), tokens.end())] {
      inner().add_draft_tokens(copy);
    });
  }

 private:
  static constexpr std::int64_t kWaitedNs = 1'000'000;

  void expect_tokens(const StepArgs& args) {
    for (const SampleRow& row : args.samples) {
      if (row.store >= 0) queue_->will_store(&args.round_tokens[static_cast<std::size_t>(row.store)]);
    }
  }

  std::shared_ptr<Queue> queue_;
  std::shared_ptr<Copied> last_;  // the step whose samples follow
  std::vector<float> logits_;
  std::vector<std::int32_t> sampled_;
};

class LateBackend final : public ForwardingBackend {
 public:
  LateBackend(std::unique_ptr<Backend> backend, LateReport& report)
      : ForwardingBackend(std::move(backend)), queue_(std::make_shared<Queue>(report)) {}
  Result<std::unique_ptr<Executable>> compile(const Program& program,
                                              const CompileOptions& options) override {
    FT_ASSIGN(std::unique_ptr<Executable> executable, inner().compile(program, options));
    return std::unique_ptr<Executable>(std::make_unique<LateExecutable>(std::move(executable), queue_));
  }
  Result<std::unique_ptr<State>> make_state(const StateLayout& layout, const StateOptions& options) override {
    FT_ASSIGN(std::unique_ptr<State> state, inner().make_state(layout, options));
    return std::unique_ptr<State>(std::make_unique<LateState>(std::move(state), queue_));
  }
  Result<std::unique_ptr<RowStore>> make_rows(int width, int capacity) override {
    FT_ASSIGN(std::unique_ptr<RowStore> rows, inner().make_rows(width, capacity));
    return std::unique_ptr<RowStore>(std::make_unique<LateRows>(std::move(rows), queue_));
  }

 private:
  std::shared_ptr<Queue> queue_;
};

}  // namespace

std::unique_ptr<Backend> make_late_backend(std::unique_ptr<Backend> inner, LateReport& report) {
  return std::make_unique<LateBackend>(std::move(inner), report);
}

}  // namespace ft::test
