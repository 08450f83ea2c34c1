// Every launch with its grid, threads, shared memory and arguments, for many shapes, devices and steps,
// against the record in the tree (launches.txt). A change of the host's code that shall change no launch
// leaves it as it is.
#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <numeric>

#include "backends/cuda/backend.h"
#include "backends/cuda/published_widths.h"
#include "backends/cuda/recording_device.h"
#include "backends/test_programs.h"

namespace ft::launch_record_test {
namespace {

constexpr const char* kRecord = "src/backends/cuda/launches.txt";

struct Card {
  const char* name;
  int capability, processors, shared_kb, clusters;
  bool streams, async_products;
};
constexpr Card kHopper{"sm_90", 90, 132, 227, 16, true, true};
constexpr Card kCards[] = {kHopper,
                           {"sm_90 without clusters", 90, 114, 227, 0, true, true},
                           {"sm_100", 100, 148, 227, 18, true, false},
                           {"sm_120", 120, 170, 99, 10, true, false},
                           {"sm_80", 80, 108, 163, 0, false, false},
                           {"sm_89", 89, 128, 99, 0, false, false}};

std::uint64_t checksum(std::uint64_t sum, std::string_view text) {
  for (const char c : text) sum = (sum ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL;
  return sum;
}

/// A program on a card that notes launches.
class Recorder {
 public:
  Recorder(const Card& card, const Program& program, CompileOptions options, int kv_bits = 16,
           int activation_bits = 8) {
    cuda::DeviceFacts facts;
    facts.capability = card.capability, facts.processors = card.processors;
    facts.shared_bytes = card.shared_kb << 10;
    facts.streams = card.streams, facts.async_products = card.async_products;
    device_ = std::make_shared<cuda::RecordingDevice>(facts, card.clusters);
    backend_ = std::move(cuda::make_backend_on(device_, kv_bits, activation_bits).value());
    executable_ = std::move(backend_->compile(program, options).value());
    state_ = std::move(backend_->make_state(program.layout(), {.slots = 8, .blocks = 600}).value());
    hidden_ = std::move(backend_->make_rows(kWidth, options.max_rows).value());
    captured_ = std::move(backend_->make_rows(kWidth, options.max_rows).value());
    for (int i = 0; i < 300; ++i) blocks_.push_back(i);
    for (int i = 0; i < options.max_rows; ++i) places_.push_back(i);
    note("compile");
  }

  struct Step {
    int rows = 1, segments = 1, logit_rows = 0;
    std::int64_t position = 0;
    const SampleRow* sample = nullptr;  // of every logit row
    bool follows = false, logits = true, captures = true, embeds = false;
  };
  /// The kernels of the step.
  std::vector<std::string> run(const Step& step) {
    StepArgs args;
    const std::vector<std::int32_t> tokens(static_cast<std::size_t>(step.rows * step.segments), 1);
    std::vector<Segment> segments;
    for (int s = 0; s < step.segments; ++s)
      segments.push_back({{blocks_, s, 0, 0}, step.position, step.rows, 1});
    args.tokens = tokens, args.segments = segments;
    const auto places = std::span<const std::int32_t>(places_).first(tokens.size());
    args.hidden = {hidden_.get(), places};
    if (step.captures) args.capture = {captured_.get(), places};
    if (step.embeds) args.embeddings = {hidden_.get(), places};
    args.logit_rows = std::span<const std::int32_t>(places_).first(static_cast<std::size_t>(step.logit_rows));
    std::vector<SampleRow> samples;
    if (step.sample != nullptr) samples.assign(args.logit_rows.size(), *step.sample);
    args.logits = step.logits, args.samples_follow = step.follows;
    if (!step.follows) args.samples = samples;
    executable_->submit(args, *state_);
    args.samples = samples;
    if (step.follows) executable_->submit_samples(args);
    executable_->collect();
    return note(fmt::format("{} rows", step.rows * step.segments));
  }

  std::uint64_t sum() const { return sum_; }

 private:
  static constexpr int kWidth = 64;  // of the rows of stores

  std::vector<std::string> note(const std::string& what) {
    std::vector<std::string> kernels;
    sum_ = checksum(sum_, what);
    for (const cuda::RecordingDevice::Noted& one : device_->noted()) {
      EXPECT_EQ(one.line.find("lost"), std::string::npos) << one.line;
      EXPECT_NE(one.line.back(), ':') << one.kernel << " has no line in argument_fields.h";
      kernels.push_back(one.kernel);
      sum_ = checksum(sum_, one.line);
    }
    device_->forget();
    return kernels;
  }

  std::shared_ptr<cuda::RecordingDevice> device_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Executable> executable_;
  std::unique_ptr<State> state_;
  std::unique_ptr<RowStore> hidden_, captured_;
  std::vector<std::int32_t> blocks_, places_;
  std::uint64_t sum_ = 0xCBF29CE484222325ULL;
};

/// A matrix without bytes: nobody reads them where nothing runs.
Weight matrix(std::int64_t rows, std::int64_t cols, int bits, int group, Format scales = Format::kBf16) {
  static const std::byte nothing{};
  Weight weight;
  weight.name = "w", weight.format = Format::kAffine, weight.rows = rows, weight.cols = cols;
  weight.bits = bits, weight.group = group, weight.scale_format = scales;
  weight.data = weight.scales = weight.biases = &nothing;
  return weight;
}

constexpr int kRowCounts[] = {1,  2,  3,  4,  5,  8,  9,   12,  16,  17,  24,  32,
                              33, 40, 48, 64, 65, 96, 128, 192, 256, 512, 1024};

/// "1-2 stream_2_5, 3-4 stream_4_5": the kernel that multiplies, by the number of rows.
std::string kernels_by_rows(Recorder& recorder) {
  struct Range {
    int first, last;
    std::string kernel;
  };
  std::vector<Range> ranges;
  for (const int rows : kRowCounts) {
    std::vector<std::string> kernels = recorder.run({.rows = rows, .captures = false});
    std::erase_if(kernels, [](const std::string& kernel) {
      return kernel == "fetch" || kernel == "gather_rows" || kernel == "quantise" || kernel == "rms_norm";
    });
    const std::string all = fmt::format("{}", fmt::join(kernels, "+"));
    if (ranges.empty() || ranges.back().kernel != all)
      ranges.push_back({rows, rows, all});
    else
      ranges.back().last = rows;
  }
  std::vector<std::string> texts;
  for (const Range& range : ranges) {
    texts.push_back(range.first == range.last
                        ? fmt::format("{} {}", range.first, range.kernel)
                        : fmt::format("{}-{} {}", range.first, range.last, range.kernel));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

void record_linear(std::string& text, const Card& card, const Weight& weight) {
  Program program;
  program.linear(program.input(static_cast<int>(weight.cols)), {weight});
  Recorder recorder(card, program, {.max_rows = 1024, .max_logit_rows = 1});
  const std::string kernels = kernels_by_rows(recorder);
  const std::string format = weight.format == Format::kAffine ? fmt::format("{} bits", weight.bits)
                                                              : std::string(format_name(weight.format));
  text += fmt::format("{}, {}, group {}{}, {} to {}: {}; {:016x}\n", card.name, format, weight.group,
                      weight.scale_format == Format::kF32 ? ", float scales" : "", weight.cols, weight.rows,
                      kernels, recorder.sum());
}

void record_linears(std::string& text) {
  RandomWeights random(7);
  for (const int inputs : published_inputs()) record_linear(text, kHopper, matrix(5120, inputs, 4, 64));
  for (const Card& card : kCards) {
    for (const int inputs : {256, 1024, 5120, 5376, 17408, 28672}) {
      for (const int outputs : {48, 1024, 34816}) record_linear(text, card, matrix(outputs, inputs, 4, 64));
    }
    record_linear(text, card, random.block_float(Format::kMxfp4, 3000, 2880));
    for (const int bits : {4, 8}) {
      for (const int group : {32, 64, 128}) {
        for (const Format scales : {Format::kBf16, Format::kF32}) {
          if (bits == 4 && group == 64 && scales == Format::kBf16) continue;
          record_linear(text, card, matrix(3000, 2048, bits, group, scales));
        }
      }
    }
  }
}

/// Norm, linears of one input, an addition, activations, to record which of them makes codes for which.
Program chain(int width, const std::vector<Weight>& second, bool read_twice) {
  static RandomWeights random(3);
  Program program;
  Row x = program.input(width);
  const Row normed = program.norm(x, random.plain(Format::kBf16, 1, width, 0.3F, 1), 1e-6F);
  const std::vector<Row> inner =
      program.linear(normed, {matrix(second[0].cols, width, 4, 64), matrix(second[0].cols, width, 4, 64)});
  const Row down = program.linear(program.swiglu(inner[0], inner[1]), second)[0];
  x = program.add(down, read_twice ? normed : x);
  program.linear(x, {matrix(96, width, 4, 64), matrix(64, width, 8, 32)});
  return program;
}

void record_chains(std::string& text) {
  for (const Card& card : kCards) {
    for (const int width : {256, 4096, 5376}) {
      for (const bool twice : {false, true}) {
        const Program program =
            chain(width, {twice ? matrix(width, 512, 8, 64) : matrix(width, 512, 4, 64)}, twice);
        Recorder recorder(card, program, {.max_rows = 1024, .max_logit_rows = 1});
        for (const int rows : kRowCounts) recorder.run({.rows = rows, .captures = false});
        text += fmt::format("{}, chain of {}{}: {:016x}\n", card.name, width, twice ? ", 8 bits" : "",
                            recorder.sum());
      }
    }
  }
}

void record_samples(Recorder& recorder) {
  const std::vector<LogitBias> bias = {{3, 1}};
  SamplingParams greedy, draws, filtered, hosts, penalised;
  greedy.temperature = 0, draws.temperature = filtered.temperature = hosts.temperature = 1;
  penalised.repetition = 1.1F;
  filtered.top_k = 20, hosts.top_p = 0.5F;
  SampleRow biased;
  biased.bias = bias;
  for (SampleRow row : {SampleRow{}, biased}) {
    for (const SamplingParams* sampler : {&greedy, &draws, &filtered, &penalised}) {
      row.sampler = sampler;
      for (const bool follows : {false, true})
        recorder.run({.rows = 3, .logit_rows = 2, .sample = &row, .follows = follows, .logits = false});
    }
  }
  biased.sampler = &hosts;
  recorder.run({.rows = 2, .logit_rows = 2, .sample = &biased});
}

void record_program(std::string& text, const char* name, const TestShape& shape) {
  for (const Card& card : kCards) {
    for (const int kv_bits : {16, 8}) {
      const TestProgram test(shape, 5);
      Recorder recorder(card, test.program, {.max_rows = 128, .max_logit_rows = 8}, kv_bits);
      for (const int rows : {1, 2, 3, 4, 8, 16, 17, 33, 65, 128}) {
        recorder.run({.rows = rows, .logit_rows = std::min(rows, 8), .position = rows % 2 * 5000});
        recorder.run({.rows = rows, .captures = false, .embeds = true});
        if (rows <= 16) recorder.run({.rows = rows, .segments = 4, .logit_rows = 2, .logits = false});
      }
      if (kv_bits == 16) record_samples(recorder);
      text +=
          fmt::format("{}, {}, {}-bit keys and values: {:016x}\n", card.name, name, kv_bits, recorder.sum());
    }
  }
}

void record_programs(std::string& text) {
  TestShape streamed;
  streamed.hidden = 1024, streamed.mlp = 1536, streamed.key_dim = 128;
  streamed.ids = {1, 5, 7, 90}, streamed.extra.count = 20;
  record_program(text, "plain shape", TestShape{});
  record_program(text, "streamed shape", streamed);
  record_program(text, "odd shape", TestShape::odd());
  record_program(text, "widened shape", TestShape::widened());
  record_program(text, "shared caches", TestShape::shared());
  record_program(text, "vision tower", TestShape::vision());
}

/// A block of DFlash2: convolutions, logits and a walk. `affine`: the tables too.
Program walking_block(bool affine) {
  static RandomWeights random(7);
  constexpr int kWidth = 64, kTaps = 2, kGroups = 4, kTokens = 5000, kRank = 64;
  Program program;
  const Row x = program.norm(program.input(kWidth), random.plain(Format::kBf16, 1, kWidth, 0.3F, 1), 1e-6F);
  const Row coefficients = program.linear(x, {matrix(2 * kTaps * kGroups, kWidth, 4, 64)})[0];
  const Row convolved = program.append(LocalConv{
      x, coefficients, random.plain(Format::kBf16, 2, kTaps * kWidth, 0.3F), kTaps, kGroups, 1, {}});
  Walk walk{{}, matrix(kTokens, kRank, 4, 64), matrix(kTokens, kRank, 4, 64), 16, 7};
  if (!affine) walk.predecessor = walk.successor = random.plain(Format::kBf16, kTokens, kRank, 0.3F);
  if (affine) walk.factors = program.linear(convolved, {matrix(kRank, kWidth, 4, 64)})[0];
  program.logits(convolved, matrix(kTokens, kWidth, 4, 64));
  program.walk(walk);
  return program;
}

/// Logits of the clusters that a row chooses.
Program clustered(bool affine) {
  static RandomWeights random(9);
  constexpr int kWidth = 64, kClusters = 8, kTokens = 4000;
  Program program;
  const Row x = program.input(kWidth);
  std::vector<std::int32_t> tokens(kTokens);
  std::iota(tokens.begin(), tokens.end(), 0);
  const Weight table =
      affine ? matrix(kTokens, kWidth, 4, 64) : random.plain(Format::kBf16, kTokens, kWidth, 0.3F);
  const Row scores = program.linear(x, {matrix(kClusters, kWidth, 4, 64)})[0];
  const Row routes = program.append(TopKRouter{scores, 2, true, {}, {}});
  program.logits(ClusterLogits{x, routes, table, kClusters, std::move(tokens), affine ? 30.0F : 0.0F});
  program.sample();
  return program;
}

void record_drafters(std::string& text) {
  for (const Card& card : kCards) {
    for (const bool affine : {false, true}) {
      Recorder block(card, walking_block(affine), {.max_rows = 64, .max_logit_rows = 64});
      const SamplingParams greedy;
      SampleRow sample;
      sample.sampler = &greedy;
      for (const int rows : {1, 2, 8, 16}) {
        block.run({.rows = rows, .logit_rows = rows, .sample = &sample, .logits = false, .captures = false});
        block.run({.rows = rows, .segments = 3, .logit_rows = rows, .sample = &sample, .captures = false});
      }
      Recorder clusters(card, clustered(affine), {.max_rows = 8, .max_logit_rows = 8});
      for (const int rows : {1, 3, 8})
        clusters.run({.rows = rows, .logit_rows = rows, .sample = &sample, .captures = false});
      text += fmt::format("{}, drafters{}: {:016x} {:016x}\n", card.name, affine ? ", 4 bits" : "",
                          block.sum(), clusters.sum());
    }
  }
}

/// 16-bit activations: products, experts, and the instructions that make halves for them.
void record_halves(std::string& text) {
  TestShape mixture;
  mixture.hidden = 1024, mixture.mlp = 1536, mixture.key_dim = 128;
  mixture.experts = 9, mixture.chosen = 3, mixture.expert = 64;
  for (const Card& card : kCards) {
    const TestProgram test(mixture, 5);
    Recorder recorder(card, test.program, {.max_rows = 128, .max_logit_rows = 8}, 16, 16);
    std::vector<std::string> kernels;
    for (const int rows : {1, 3, 8, 16, 33, 128}) {
      for (std::string& kernel : recorder.run({.rows = rows, .logit_rows = std::min(rows, 8)})) {
        if (kernel.find("half") != std::string::npos && std::ranges::find(kernels, kernel) == kernels.end())
          kernels.push_back(std::move(kernel));
      }
    }
    std::ranges::sort(kernels);
    text += fmt::format("{}, 16-bit activations, {}: {:016x}\n", card.name, fmt::join(kernels, "+"),
                        recorder.sum());
  }
}

TEST(CudaLaunches, AreThoseOfTheRecord) {
  std::string text;
  record_linears(text);
  record_chains(text);
  record_programs(text);
  record_drafters(text);
  record_halves(text);
  std::ifstream file(kRecord);
  const std::string recorded{std::istreambuf_iterator<char>(file), {}};
  if (text == recorded) return;
  const std::string fresh = testing::TempDir() + "launches.txt";
  std::ofstream(fresh) << text;
  const auto differs = std::ranges::mismatch(text, recorded);
  const auto begin = text.rfind('\n', static_cast<std::size_t>(differs.in1 - text.begin()));
  FAIL() << "the first line that differs from " << kRecord << ":\n"
         << text.substr(begin + 1, text.find('\n', begin + 1) - begin - 1)
         << "\nIf launches shall change, compare " << fresh << " with the record and copy it there";
}

}  // namespace
}  // namespace ft::launch_record_test
