// The kernels of the metal backend on an NVIDIA GPU against their twin on the host, launch by launch:
//   metal_on_cuda IMAGE              every launch of every program: bits of everything that it may write
//   metal_on_cuda IMAGE --differ     CUDA's own exp and log: the largest difference instead
//   metal_on_cuda IMAGE --only-gpu   without the twin, fewer rows: for compute-sanitizer
// IMAGE: tools/gpu/metal_kernels.py. Prints one line per kernel. Exit code 1: bits differ, or a kernel never
// ran.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "backends/instruction_programs.h"
#include "backends/metal/backend.h"
#include "backends/metal/executable.h"
#include "backends/metal/forwarding_device.h"
#include "backends/metal/twin/fibres.h"
#include "backends/metal/twin/kernels.h"
#include "backends/test_programs.h"
#include "backends/test_timeline.h"
#include "tests/metal_on_cuda/gpu.h"

namespace ft::metal {
namespace {

struct Seen {
  long launches = 0, words = 0, differing = 0;
  double largest = 0;  // difference, in parts of the value or of 1
};
using Table = std::map<std::string, Seen, std::less<>>;

/// The GPU; after each launch its results are compared with the twin's from the same bytes.
class Compared final : public ForwardingDevice {
 public:
  Compared(std::shared_ptr<Device> gpu, Table& table, bool compares)
      : ForwardingDevice(std::move(gpu)), table_(table), compares_(compares) {}
  void dispatch(int kernel, std::span<const Place> buffers, std::span<const std::byte> args, Grid grid,
                int threads) override {
    Seen& seen = table_[name_of(kernel)];
    ++seen.launches;
    if (!compares_) return inner().dispatch(kernel, buffers, args, grid, threads);
    std::map<const std::byte*, std::vector<std::byte>> copies;  // by the buffer that they copy
    for (const Place& place : buffers) {
      const Buffer& from = *place.buffer;
      copies.try_emplace(from.data, from.data, from.data + from.bytes);
    }
    inner().dispatch(kernel, buffers, args, grid, threads);
    std::vector<std::byte*> places;
    for (const Place& place : buffers) places.push_back(copies[place.buffer->data].data() + place.offset);
    run_twin_kernel(find_twin_kernel(name_of(kernel)), places, args.data(), grid, threads);
    for (const auto& [data, copy] : copies) count(seen, data, copy);
  }

 private:
  static void count(Seen& seen, const std::byte* gpu, const std::vector<std::byte>& twin) {
    for (std::size_t at = 0; at + 4 <= twin.size(); at += 4) {
      ++seen.words;
      if (std::memcmp(gpu + at, twin.data() + at, 4) == 0) continue;
      ++seen.differing;
      float a = 0, b = 0;
      std::memcpy(&a, gpu + at, 4), std::memcpy(&b, twin.data() + at, 4);
      const double apart = std::abs(a - static_cast<double>(b)) / std::max(1.0, std::abs(double{b}));
      if (!(apart <= seen.largest)) seen.largest = apart;
    }
  }

  Table& table_;
  bool compares_;
};

class Check {
 public:
  Check(std::shared_ptr<Device> device, bool quick)
      : device_(std::move(device)),
        backend_(std::move(make_backend_on(device_, 16).value())),
        chunks_{quick ? std::vector<int>{5, 20} : std::vector<int>{1, 2, 3, 7, 20}} {}

  void all() {
    linears();
    tables_and_experts();
    for (const int key_dim : {20, 64, 128, 256})
      through(delta_program(random_, {.key_dim = key_dim, .value_dim = 41, .kernel_width = 3}));
    for (const int head_dim : {24, 64, 128, 256, 512})
      through(attend_program(random_, {.heads = 4, .kv_heads = 2, .head_dim = head_dim, .rotary = 16}));
    const std::unique_ptr<Backend> of_bytes = std::move(make_backend_on(device_, 8).value());
    for (const int head_dim : {24, 64, 128, 256, 512}) {
      const InstructionProgram made = attend_program(random_, {.head_dim = head_dim, .rotary = 16});
      captured_rows(*of_bytes, made.program, random_rows(random_, kRows, made.width), made.width, 7, 3);
    }
    through(attend_program(random_, {.window = 9}));
    through(attend_program(random_, {.causal = false, .gated = true}));
    long_context();
    for (const int columns : {301, 9001}) drafts(columns);
    for (const TestShape& shape : {TestShape{}, TestShape::odd(), TestShape::widened(), TestShape::shared(),
                                   TestShape::mixture(), TestShape::vision()})
      whole(shape);
  }

 private:
  static constexpr int kRows = 20;

  void through(const InstructionProgram& made) { through(made, chunks_); }
  void through(const InstructionProgram& made, const std::vector<int>& chunks) {
    const std::vector<float> rows = random_rows(random_, kRows, made.width);
    for (const int chunk : chunks)
      captured_rows(*backend_, made.program, rows, made.width, chunk, chunk == 7 ? 3 : 0);
  }

  std::vector<Weight> formats(int rows, int cols) {
    std::vector<Weight> all;
    for (const int bits : {2, 3, 4, 5, 6, 8})
      all.push_back(random_.affine(rows, cols, bits, 32, bits % 2 == 0 ? Format::kBf16 : Format::kF16));
    for (const Format format : {Format::kBf16, Format::kF16, Format::kF32})
      all.push_back(random_.plain(format, rows, cols, 0.2F));
    for (const Format format : {Format::kMxfp4, Format::kMxfp8, Format::kNvfp4})
      all.push_back(random_.block_float(format, rows, cols));
    return all;
  }

  /// By every number of rows that has a separate kernel.
  void linears() {
    const std::vector<int> chunks = {1, 2, 3, 7, 20};
    for (const Weight& weight : formats(37, 288)) through(linear_program({weight}), chunks);
    for (const int group : {64, 128})
      through(linear_program({random_.affine(48, 384, 4, group, Format::kF32)}), chunks);
    through(two_of_one_address(random_));
  }

  void tables_and_experts() {
    for (const Weight& weight : formats(64, 64)) {
      Program table;
      table.capture("out", table.embed(weight));
      captured_rows(*backend_, table, std::vector<float>(kRows), 1, kRows);
      InstructionProgram made;
      made.width = 64;
      const Row in = made.program.input(made.width);
      MoeMlp experts;
      experts.in = in;
      experts.routes = made.program.append(TopKRouter{
          made.program.linear(in, {random_.plain(Format::kBf16, 5, 64, 0.3F)})[0], 2, true, {}, {}});
      for (int e = 0; e < 5; ++e) {
        for (auto* const matrices : {&experts.gate, &experts.up, &experts.down}) {
          const Weight one = formats(64, 64)[index_of(weight)];
          matrices->push_back(one);
        }
      }
      made.program.capture("out", made.program.append(std::move(experts)));
      through(made);
    }
  }

  /// Its index in formats().
  static std::size_t index_of(const Weight& weight) {
    if (weight.format == Format::kAffine)
      return static_cast<std::size_t>(weight.bits == 8 ? 5 : weight.bits - 2);
    switch (weight.format) {
      case Format::kBf16:
        return 6;
      case Format::kF16:
        return 7;
      case Format::kF32:
        return 8;
      case Format::kMxfp4:
        return 9;
      case Format::kMxfp8:
        return 10;
      default:
        return 11;
    }
  }

  /// Several chunks of 256 positions.
  void long_context() {
    const InstructionProgram made = attend_program(random_, {.head_dim = 32, .rotary = 8, .gated = true});
    captured_rows(*backend_, made.program, random_rows(random_, 300, made.width), made.width, 150);
  }

  /// Rows of every kind: greedy, among all tokens, and with every filter.
  void drafts(int columns) {
    constexpr int kDrafts = 6;
    InstructionProgram made;
    made.width = 64;
    const Row in = made.program.input(made.width);
    made.program.logits(Logits{in, random_.plain(Format::kF32, columns, made.width, 1), {}, {}, {}, 0});
    made.program.sample();
    const auto executable =
        std::move(backend_->compile(made.program, {.max_rows = kDrafts, .max_logit_rows = kDrafts}).value());
    const auto state =
        std::move(backend_->make_state(made.program.layout(), {.slots = 1, .blocks = 1}).value());
    const auto store = std::move(backend_->make_rows(made.width, kDrafts).value());
    store->write(0, random_rows(random_, kDrafts, made.width));
    const std::vector<std::int32_t> places = {0, 1, 2, 3, 4, 5}, tokens(kDrafts), blocks = {0};
    std::vector<std::int32_t> round(kDrafts);
    std::vector<SamplingParams> samplers(3);
    samplers[1].temperature = samplers[2].temperature = 0.8F;
    samplers[2].top_k = 20, samplers[2].top_p = 0.9F, samplers[2].min_p = 0.01F;
    const std::vector<LogitBias> biases = {{3, 1.0F}, {8, -2.0F}};
    const Segment segment{{blocks, 0, 0, 0}, 0, kDrafts, kDrafts};
    for (const std::size_t most : {1U, 2U, 3U}) {
      std::vector<SampleRow> samples(kDrafts);
      for (std::size_t i = 0; i < samples.size(); ++i) {
        samples[i].sampler = &samplers[i % most], samples[i].position = static_cast<std::int64_t>(i << 31);
        samples[i].store = static_cast<std::int32_t>(i), samples[i].exact = false;
        if (i > 2) samples[i].bias = biases;
      }
      StepArgs args;
      args.tokens = tokens, args.hidden = {store.get(), places}, args.segments = {&segment, 1};
      args.logit_rows = places, args.samples = samples, args.round_tokens = round, args.logits = false;
      executable->run(args, *state);
    }
  }

  void whole(const TestShape& shape) {
    const TestProgram test(shape, 1);
    const auto executable = std::move(
        metal::compile(device_, test.program, {.max_rows = kRows, .max_logit_rows = kRows}).value());
    const auto state =
        std::move(MetalState::make(device_, test.program.layout(), {.slots = 1, .blocks = 1}).value());
    TestTimeline timeline(*executable, *state, {0}, 0);
    for (int at = 0; at < kRows; at += 5) {
      std::vector<std::int32_t> tokens;
      for (int i = at; i < at + 5; ++i) tokens.push_back(i * 31 % shape.vocabulary);
      timeline.step(tokens, 2);
      timeline.keep(2, 3);
    }
  }

  std::shared_ptr<Device> device_;
  std::unique_ptr<Backend> backend_;
  std::vector<int> chunks_;
  RandomWeights random_{11};
};

constexpr const char* kNames[] = {
#define FT_PLAIN(name) #name,
#define FT_INSTANCE(name, ...) #name,
#include "backends/metal/kernels/list.inc"
#undef FT_PLAIN
#undef FT_INSTANCE
};

/// Prints the table; whether every kernel ran and, where bits count, none differs.
bool report(const Table& table, bool bits_count) {
  long launches = 0, words = 0, differing = 0;
  int never = 0;
  std::printf("%-28s %9s %12s %10s %s\n", "kernel", "launches", "words", "differing", "largest");
  for (const char* const name : kNames) {
    const auto found = table.find(name);
    if (found == table.end()) {
      ++never;
      std::printf("%-28s never ran\n", name);
      continue;
    }
    const Seen& seen = found->second;
    launches += seen.launches, words += seen.words, differing += seen.differing;
    std::printf("%-28s %9ld %12ld %10ld %.3g\n", name, seen.launches, seen.words, seen.differing,
                seen.largest);
  }
  std::printf("%zu kernels, %d never ran; %ld launches, %ld words compared, %ld differ\n", std::size(kNames),
              never, launches, words, differing);
  return never == 0 && (!bits_count || differing == 0);
}

}  // namespace
}  // namespace ft::metal

int main(int count, char** words) {
  const std::string mode = count > 2 ? words[2] : "";
  if (count < 2 || (!mode.empty() && mode != "--differ" && mode != "--only-gpu")) {
    std::fprintf(stderr, "usage: metal_on_cuda IMAGE [--differ | --only-gpu]\n");
    return 2;
  }
  std::ifstream file(words[1], std::ios::binary);
  const std::vector<char> image((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  auto gpu = ft::metal::open_gpu(image);
  if (!gpu.ok()) {
    std::fprintf(stderr, "%s\n", gpu.error().message.c_str());
    return 1;
  }
  std::printf("%s\n", (*gpu)->describe().c_str());
  ft::metal::Table table;
  const bool only_gpu = mode == "--only-gpu";
  try {
    ft::metal::Check(std::make_shared<ft::metal::Compared>(*gpu, table, !only_gpu), only_gpu).all();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    ft::metal::report(table, false);
    return 1;
  }
  return ft::metal::report(table, mode.empty()) ? 0 : 1;
}
