// The cost of the metal backend's kernels on an NVIDIA GPU compared with the cuda backend's, instruction
// by instruction, at the shapes of Qwen3.5 0.8B and 27B:
//   metal_cuda_bench IMAGE    on the GPU; IMAGE: tools/gpu/metal_kernels.py
//   metal_cuda_bench --dry    the twin and the processor at tiny shapes, to check that it runs
// A figure is the difference of two programs that differ in the number of copies of the instruction alone, so
// launches of a graph, copies of rows and waits cancel. Both sides run as one graph a step.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "backends/cpu/backend.h"
#include "backends/cuda/backend.h"
#include "backends/metal/backend.h"
#include "backends/random_weights.h"
#include "tests/metal_on_cuda/gpu.h"

namespace ft::metal {
namespace {

struct Shape {
  const char* name;
  int hidden, heads, kv_heads, head_dim, key_heads, value_heads, dim;

  int conv_width() const { return (2 * key_heads + value_heads) * dim; }
  int attend_width() const { return (2 * heads + 2 * kv_heads) * head_dim; }
};
constexpr Shape kShapes[] = {{"0.8B", 1024, 8, 2, 256, 16, 16, 128}, {"27B", 5120, 24, 4, 256, 16, 48, 128}};
constexpr Shape kTiny = {"tiny", 96, 4, 2, 32, 2, 4, 16};

enum class Piece { kNorm, kConv, kDelta, kRecurrent, kAttend };
constexpr std::array kPieces = {Piece::kNorm, Piece::kConv, Piece::kDelta, Piece::kRecurrent, Piece::kAttend};

const char* name_of(Piece piece) {
  switch (piece) {
    case Piece::kNorm:
      return "norm";
    case Piece::kConv:
      return "conv";
    case Piece::kDelta:
      return "delta rule";
    case Piece::kRecurrent:
      return "conv, delta rule, gated norm";
    case Piece::kAttend:
      return "attend";
  }
  return "";
}

struct Made {
  Program program;
  int width = 0;
};

/// `copies` of a piece over one input.
class Maker {
 public:
  Maker(const Shape& shape, Piece piece, int copies) : shape_(shape) {
    made_.width = piece == Piece::kNorm     ? shape.hidden
                  : piece == Piece::kAttend ? shape.attend_width()
                                            : shape.conv_width() + 2 * shape.value_heads + values();
    const Row in = made_.program.input(made_.width);
    Row out = in;
    if (piece == Piece::kNorm) {
      const Weight weight = random_.plain(Format::kBf16, 1, shape.hidden, 0.3F, 1);
      for (int i = 0; i < copies; ++i) out = made_.program.norm(out, weight, 1e-6F);
    } else {
      cut(in, piece);
      for (int i = 0; i < copies; ++i) out = piece == Piece::kAttend ? attend() : recurrent(piece);
    }
    made_.program.capture("out", out);
  }
  const Made& made() const { return made_; }

 private:
  int values() const { return shape_.value_heads * shape_.dim; }
  Row slice(Row in, int& at, int width) {
    const Row out = made_.program.append(Slice{in, at, width, {}});
    at += width;
    return out;
  }

  void cut(Row in, Piece piece) {
    int at = 0;
    if (piece == Piece::kAttend) {
      q_ = slice(in, at, 2 * shape_.heads * shape_.head_dim);
      k_ = slice(in, at, shape_.kv_heads * shape_.head_dim);
      v_ = slice(in, at, shape_.kv_heads * shape_.head_dim);
      head_norm_ = random_.plain(Format::kF32, 1, shape_.head_dim, 0.2F, 1);
      return;
    }
    x_ = slice(in, at, shape_.conv_width());
    a_ = slice(in, at, shape_.value_heads), b_ = slice(in, at, shape_.value_heads);
    z_ = slice(in, at, values());
    taps_ = random_.plain(Format::kBf16, shape_.conv_width(), 4, 0.8F);
    a_log_ = random_.plain(Format::kF32, 1, shape_.value_heads, 1);
    dt_bias_ = random_.plain(Format::kF32, 1, shape_.value_heads, 1);
    head_norm_ = random_.plain(Format::kF32, 1, shape_.dim, 0.3F, 1);
  }

  Row recurrent(Piece piece) {
    Program& program = made_.program;
    const Row mixed = piece == Piece::kDelta ? x_ : program.conv(x_, taps_);
    if (piece == Piece::kConv) return mixed;
    DeltaRule delta;
    delta.in = mixed, delta.a = a_, delta.b = b_;
    delta.a_log = a_log_, delta.dt_bias = dt_bias_;
    delta.key_heads = shape_.key_heads, delta.value_heads = shape_.value_heads;
    delta.key_dim = delta.value_dim = shape_.dim;
    const Row out = program.delta_rule(delta);
    return piece == Piece::kDelta ? out : program.gated_norm(out, z_, head_norm_, 1e-6F);
  }

  Row attend() {
    Attention attend;
    attend.q = q_, attend.k = k_, attend.v = v_;
    attend.q_norm = attend.k_norm = head_norm_;
    attend.heads = shape_.heads, attend.kv_heads = shape_.kv_heads, attend.head_dim = shape_.head_dim;
    attend.rotary = shape_.head_dim / 4, attend.gated = true;
    for (int j = 0; j < attend.rotary / 2; ++j)
      attend.inverse_frequencies.push_back(std::pow(1e7F, -2.0F * static_cast<float>(j) / 64.0F));
    attend.eps = 1e-6F, attend.scale = 1 / std::sqrt(static_cast<float>(shape_.head_dim));
    return made_.program.attend(attend);
  }

  Shape shape_;
  Made made_;
  RandomWeights random_{5};
  Row q_, k_, v_, x_, a_, b_, z_;
  Weight taps_, a_log_, dt_bias_, head_norm_;
};

/// One step of `rows` rows at `position`, as often as asked for.
class Steps {
 public:
  Steps(Backend& backend, const Made& made, int rows, int position) {
    const int total = (position + rows) / kBlockRows + 1;
    executable_ = std::move(backend.compile(made.program, {.max_rows = rows, .max_logit_rows = 1}).value());
    state_ = std::move(backend.make_state(made.program.layout(), {.slots = 1, .blocks = total}).value());
    in_ = std::move(backend.make_rows(made.width, rows).value());
    std::vector<float> values(static_cast<std::size_t>(rows * made.width));
    RandomWeights random(9);
    for (float& value : values) value = random.uniform();
    in_->write(0, values);
    blocks_.resize(static_cast<std::size_t>(total));
    std::iota(blocks_.begin(), blocks_.end(), 0);
    places_.resize(static_cast<std::size_t>(rows));
    std::iota(places_.begin(), places_.end(), 0);
    tokens_.assign(places_.size(), 0);
    // All rows but the first are drafts, up to the maximum of drafts.
    const int drafts = rows - 1 <= kMaxTapeRows ? rows - 1 : 0;
    segment_ = {{blocks_, 0, 0, 0}, position, rows, rows - drafts};
    args_.tokens = tokens_, args_.hidden = {in_.get(), places_}, args_.segments = {&segment_, 1};
  }
  Steps(const Steps&) = delete;
  Steps& operator=(const Steps&) = delete;

  void step() { executable_->run(args_, *state_); }
  /// The host's clock: the median of many.
  double microseconds() {
    constexpr int kWarm = 10, kTimes = 41;
    std::vector<double> times;
    for (int i = 0; i < kWarm + kTimes; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      step();
      const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
      if (i >= kWarm) times.push_back(took.count());
    }
    std::ranges::nth_element(times, times.begin() + kTimes / 2);
    return times[kTimes / 2];
  }

 private:
  std::unique_ptr<Executable> executable_;
  std::unique_ptr<State> state_;
  std::unique_ptr<RowStore> in_;
  std::vector<std::int32_t> blocks_, places_, tokens_;
  Segment segment_;
  StepArgs args_;
};

class Bench {
 public:
  /// gpu: null for a dry run.
  Bench(std::shared_ptr<Gpu> gpu, std::unique_ptr<Backend> metal, std::unique_ptr<Backend> other)
      : gpu_(std::move(gpu)), metal_(std::move(metal)), other_(std::move(other)) {}

  void one(const Shape& shape, Piece piece, int rows, int position) {
    std::array<double, 2> metal{}, other{};
    for (const std::size_t many : {std::size_t{0}, std::size_t{1}}) {
      const Maker maker(shape, piece, kCopies[many]);
      metal[many] = of_metal(maker.made(), rows, position);
      other[many] = Steps(*other_, maker.made(), rows, position).microseconds();
    }
    const double a = (metal[1] - metal[0]) / (kCopies[1] - kCopies[0]),
                 b = (other[1] - other[0]) / (kCopies[1] - kCopies[0]);
    std::printf("%-5s %-29s %5d %9d %10.2f %10.2f %8.2f\n", shape.name, name_of(piece), rows, position, a, b,
                a / b);
    std::fflush(stdout);
  }

 private:
  static constexpr std::array kCopies = {4, 16};

  double of_metal(const Made& made, int rows, int position) {
    Steps steps(*metal_, made, rows, position);
    if (gpu_ == nullptr) return steps.microseconds();
    steps.step();  // takes the memory that a step needs
    gpu_->time_next_step();
    steps.step();
    return gpu_->microseconds();
  }

  std::shared_ptr<Gpu> gpu_;
  std::unique_ptr<Backend> metal_, other_;
};

int dry() {
  Bench bench(nullptr, std::move(make_metal_twin_backend({}).value()),
              std::move(make_cpu_backend({}).value()));
  for (const Piece piece : kPieces) bench.one(kTiny, piece, 2, 40);
  return 0;
}

int on_gpu(const char* path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> image((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  auto gpu = open_gpu(image);
  auto other = make_cuda_backend({});
  if (!gpu.ok() || !other.ok()) {
    std::fprintf(stderr, "%s\n", (gpu.ok() ? other.error() : gpu.error()).message.c_str());
    return 1;
  }
  std::printf("%s\n%-5s %-29s %5s %9s %10s %10s %8s\n", (*gpu)->describe().c_str(), "model", "piece", "rows",
              "position", "metal us", "cuda us", "ratio");
  auto metal = std::move(make_backend_on(*gpu, 16).value());
  Bench bench(*gpu, std::move(metal), std::move(*other));
  for (const Shape& shape : kShapes) {
    for (const int rows : {1, 4, 256}) {
      for (const Piece piece : kPieces) {
        bench.one(shape, piece, rows, 512);
        if (piece == Piece::kAttend) bench.one(shape, piece, rows, 4096);
      }
    }
  }
  return 0;
}

}  // namespace
}  // namespace ft::metal

int main(int count, char** words) {
  if (count != 2) {
    std::fprintf(stderr, "usage: metal_cuda_bench IMAGE | --dry\n");
    return 2;
  }
  try {
    return std::string(words[1]) == "--dry" ? ft::metal::dry() : ft::metal::on_gpu(words[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
