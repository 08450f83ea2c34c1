// The linear alone: compared with its definition in integers and doubles; equal bits for every number of
// rows, every number of threads and every instruction set.
#include <algorithm>
#include <bit>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>

#include "backends/cpu/kernels/features.h"
#include "backends/cpu/pack/pack.h"
#include "backends/random_weights.h"
#include "backends/registry.h"
#include "backends/test_row_source.h"
#include "backends/test_rows.h"
#include "backends/weight_rows.h"

namespace ft::cpu_linear_test {
namespace {

constexpr int kRows = 85;  // a tile of the widest kernel, and part of the next

struct LinearCase {
  Format format = Format::kAffine;
  int bits = 4, group = 64;  // of affine weights
  Format scales = Format::kBf16;
  int columns = 256, outputs = 83;

  Weight weight(RandomWeights& random) const {
    if (format == Format::kAffine) return random.affine(outputs, columns, bits, group, scales);
    return is_block_float(format) ? random.block_float(format, outputs, columns)
                                  : random.plain(format, outputs, columns, 1);
  }
};

std::vector<LinearCase> linear_cases() {
  std::vector<LinearCase> cases;
  for (const int bits : {2, 3, 4, 5, 6, 8}) {
    for (const int group : {32, 64, 128}) cases.push_back({.bits = bits, .group = group});
  }
  for (const int bits : {4, 6}) {
    for (const int columns : {256, 272})  // 17 groups
      cases.push_back({.bits = bits, .group = 16, .scales = Format::kF32, .columns = columns});
  }
  cases.push_back({.bits = 2, .group = 16});  // by its values
  cases.push_back({.scales = Format::kF16});
  cases.push_back({.bits = 8, .scales = Format::kF32});
  for (const Format format : {Format::kBf16, Format::kF16, Format::kF32}) cases.push_back({.format = format});
  for (const int columns : {1, 17, 255}) cases.push_back({.format = Format::kBf16, .columns = columns});
  for (const Format format : {Format::kMxfp4, Format::kMxfp8, Format::kNvfp4}) {
    cases.push_back({.format = format});
    cases.push_back({.format = format, .columns = 288});  // a number of groups that is not a multiple of four
  }
  return cases;
}

std::string text(const LinearCase& test) {
  std::string name(format_name(test.format));
  if (test.format == Format::kAffine)
    name += std::to_string(test.bits) + " group " + std::to_string(test.group);
  return name + ", " + std::to_string(test.columns) + " columns";
}

/// One linear after an input, alone.
class LinearMachine {
 public:
  LinearMachine(const LinearCase& test, const Weight& weight, const std::string& isa, int threads,
                int activations)
      : columns_(test.columns), rows_(static_cast<int>(weight.rows)) {
    Program program;
    const Row in = program.input(test.columns);
    program.capture("out", program.linear(in, {weight})[0]);
    backend_ = std::move(
        make_backend(
            {.name = "cpu", .threads = threads, .settings = {{"isa", isa}, {"activations", activations}}})
            .value());
    executable_ = std::move(backend_->compile(program, {.max_rows = kRows, .max_logit_rows = 1}).value());
    state_ = std::move(backend_->make_state(program.layout(), {.slots = 1, .blocks = 1}).value());
  }

  std::vector<float> run(std::span<const float> hidden) {
    const auto rows = static_cast<std::int32_t>(hidden.size() / static_cast<std::size_t>(columns_));
    const std::vector<std::int32_t> tokens(static_cast<std::size_t>(rows), 0);
    const std::vector<std::int32_t> blocks = {0};
    const std::vector<Segment> segments = {{{blocks, 0, 0, 0}, 0, rows, rows}};
    StepArgs args;
    args.tokens = tokens;
    args.segments = segments;
    return run_rows(*backend_, *executable_, *state_, args, hidden, rows_).captured;
  }

 private:
  int columns_, rows_;  // of the weight
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Executable> executable_;
  std::unique_ptr<State> state_;
};

/// The row as the product uses it: integers times a scale, group by group.
std::vector<double> quantised(std::span<const float> row, int group, float max_code) {
  std::vector<double> out;
  for (std::size_t begin = 0; begin < row.size(); begin += static_cast<std::size_t>(group)) {
    const auto part = row.subspan(begin, static_cast<std::size_t>(group));
    float most = 0;
    for (const float x : part) most = std::max(most, std::fabs(x));
    const float scale = most / max_code;
    const float inverse = max_code / most;
    for (const float x : part)
      out.push_back(static_cast<double>(std::nearbyint(x * inverse)) * static_cast<double>(scale));
  }
  return out;
}

/// The row as bf16 weights use it with 8-bit activations: rounded to 8 significant bits.
std::vector<double> rounded(std::span<const float> row) {
  std::vector<double> out;
  for (const float x : row) {
    int exponent = 0;
    const double fraction = std::frexp(static_cast<double>(x), &exponent);
    out.push_back(std::ldexp(std::nearbyint(fraction * 256), exponent - 8));
  }
  return out;
}

std::vector<float> random_rows(RandomWeights& random, int columns) {
  std::vector<float> rows(static_cast<std::size_t>(kRows * columns));
  for (float& value : rows) value = random.uniform() * std::exp(3 * random.uniform());
  return rows;
}

TEST(CpuLinear, IsTheProductOfTheCodes) {
  for (const LinearCase& test : linear_cases()) {
    RandomWeights random(3);
    const Weight weight = test.weight(random);
    std::vector<float> values(static_cast<std::size_t>(test.outputs * test.columns));
    read_rows(weight, 0, test.outputs, values.data());
    const std::vector<float> rows = random_rows(random, test.columns);
    for (const int activations : {8, 16}) {
      LinearMachine machine(test, weight, "auto", 2, activations);
      const std::vector<float> got = machine.run(rows);
      for (int r = 0; r < kRows; ++r) {
        const auto row = std::span(rows).subspan(static_cast<std::size_t>(r * test.columns),
                                                 static_cast<std::size_t>(test.columns));
        // Groups of 16 of other bits are packed as floats.
        const bool floats = weight.group == 16 && weight.bits != 4 && weight.bits != 6;
        const bool whole = !weight.quantised() || weight.format == Format::kMxfp8 || floats;
        const std::vector<double> x =
            weight.format == Format::kBf16 && activations == 8 ? rounded(row)
            : whole                                            ? std::vector<double>(row.begin(), row.end())
                    : quantised(row, weight.group, activations == 8 ? 127.0F : 16319.0F);
        for (int o = 0; o < test.outputs; ++o) {
          double sum = 0;
          double size = 0;
          for (int c = 0; c < test.columns; ++c) {
            const double part = x[static_cast<std::size_t>(c)] *
                                static_cast<double>(values[static_cast<std::size_t>(o * test.columns + c)]);
            sum += part;
            size += std::fabs(part);
          }
          ASSERT_NEAR(got[static_cast<std::size_t>(r * test.outputs + o)], sum, 4e-6 * size)
              << text(test) << ", " << activations << "-bit activations, row " << r << ", output " << o;
        }
      }
    }
  }
}

TEST(CpuLinear, GivesARowTheSameBitsInAnyCompany) {
  for (const LinearCase& test : linear_cases()) {
    RandomWeights random(5);
    const Weight weight = test.weight(random);
    const std::vector<float> rows = random_rows(random, test.columns);
    for (const int activations : {8, 16}) {
      LinearMachine alone(test, weight, "auto", 1, activations);
      std::vector<float> expected;
      for (int r = 0; r < kRows; ++r) {
        const auto row = std::span(rows).subspan(static_cast<std::size_t>(r * test.columns),
                                                 static_cast<std::size_t>(test.columns));
        const std::vector<float> one = alone.run(row);
        expected.insert(expected.end(), one.begin(), one.end());
      }
      for (const cpu::Kernels* kernels : cpu::available_kernels()) {
        LinearMachine machine(test, weight, kernels->name, 2, activations);
        for (int count = 1; count <= kRows; count += count < 20 ? 1 : 13) {
          const int first = (kRows - count) / 2;
          const auto part = std::span(rows).subspan(static_cast<std::size_t>(first * test.columns),
                                                    static_cast<std::size_t>(count * test.columns));
          const std::vector<float> got = machine.run(part);
          ASSERT_TRUE(
              std::equal(got.begin(), got.end(), expected.begin() + std::ptrdiff_t{first} * test.outputs))
              << text(test) << ", " << activations << "-bit activations, " << kernels->name << ", " << count
              << " rows";
        }
      }
    }
  }
}

TEST(CpuLinear, ScalesKeptAsFactorsGiveTheBitsOfTheirProducts) {
  struct Kind {
    int bits, group, zero;
  };
  for (const Kind& kind : {Kind{4, 32, 0}, {5, 32, 0}, {6, 16, 32}, {4, 16, 4}, {4, 16, 0}, {8, 64, 0}}) {
    RandomWeights random(13);
    const LinearCase test{.bits = kind.bits, .group = kind.group, .scales = Format::kF32, .columns = 768};
    const auto source =
        std::make_shared<FactoredRows>(test.weight(random), ScaleFactors{256, kind.zero}, random);
    const Weight made = made_by(source);
    const std::int64_t packed = cpu::plan_pack(made, made.rows).value().bytes();
    EXPECT_LT(packed, cpu::plan_pack(source->stored(), made.rows).value().bytes());
    const std::vector<float> rows = random_rows(random, test.columns);
    for (const int activations : {8, 16}) {
      for (const cpu::Kernels* kernels : cpu::available_kernels()) {
        LinearMachine stored(test, source->stored(), kernels->name, 2, activations);
        LinearMachine factored(test, made, kernels->name, 2, activations);
        for (const int count : {1, 2, 3, 5, 8, 16, kRows}) {
          const auto part = std::span(rows).subspan(0, static_cast<std::size_t>(count * test.columns));
          ASSERT_EQ(factored.run(part), stored.run(part))
              << text(test) << ", " << activations << "-bit activations, " << kernels->name << ", " << count;
        }
      }
    }
  }
}

/// FNV-1a over the bits of one product whose inputs are exact on every processor, because they do not use a
/// library's exp or log.
std::uint64_t bits_of(const LinearCase& test, const std::string& isa, int activations) {
  RandomWeights random(11);
  const Weight weight = test.weight(random);
  std::vector<float> rows(static_cast<std::size_t>(3 * test.columns));
  for (float& value : rows) value = random.uniform() * static_cast<float>(1 << random.below(6));
  std::uint64_t hash = 0xCBF29CE484222325U;
  for (const float value : LinearMachine(test, weight, isa, 2, activations).run(rows)) {
    hash = (hash ^ std::bit_cast<std::uint32_t>(value)) * 0x100000001B3U;
  }
  return hash;
}

// Made by this program's portable kernels on x86-64; NEON must give the same (tools/check --only neon).
TEST(CpuLinear, GivesTheseBitsOnEveryProcessor) {
  const std::vector<std::pair<LinearCase, std::uint64_t>> golden = {
      {{.bits = 2}, 0xA0936B6472F55DFAU},
      {{.bits = 3}, 0xBD8F863078C5F6C9U},
      {{.bits = 4}, 0x6F7C380503D22431U},
      {{.bits = 5}, 0xCCA9B98A45C710E5U},
      {{.bits = 6}, 0xF79C42424B1E3219U},
      {{.bits = 8}, 0xB831FB114C62E82FU},
      {{.format = Format::kBf16}, 0x8A3A9735A5676BF8U},
      {{.format = Format::kMxfp4}, 0xB9C2C7AD6F1A981U},
      {{.format = Format::kMxfp8}, 0x43085EA4FB380E5FU},
      {{.format = Format::kNvfp4}, 0xE2014AD0AECB36FFU},
  };
  for (const auto& [test, expected] : golden) {
    for (const cpu::Kernels* kernels : cpu::available_kernels()) {
      const std::uint64_t got = bits_of(test, kernels->name, 8) ^ bits_of(test, kernels->name, 16) << 1;
      EXPECT_EQ(got, expected) << text(test) << " on " << kernels->name << ": 0x" << std::hex << got;
    }
  }
}

/// A bf16 whose exponent is one of `count` from `least` on.
std::uint32_t small_bf16(RandomWeights& random, std::uint32_t least, std::uint32_t count) {
  const std::uint32_t sign = random.below(2) << 31, mantissa = random.below(128) << 16;
  return sign | (least + random.below(count)) << 23 | mantissa;
}

// The instruction of two products flushes denormal numbers whatever the setting, so all other code must too.
TEST(CpuLinear, OfBf16NearZeroHasTheSameBitsInEverySet) {
  const LinearCase test{.format = Format::kBf16, .columns = 7, .outputs = 40};
  RandomWeights random(21);
  int zeros = 0, others = 0;
  for (int round = 0; round < 40; ++round) {
    const bool denormal = round % 2 == 0;  // denormal factors; otherwise denormal products and sums
    std::vector<std::uint16_t> values(static_cast<std::size_t>(test.outputs * test.columns));
    for (std::uint16_t& value : values)
      value = static_cast<std::uint16_t>(small_bf16(random, denormal ? 0 : 60, denormal ? 2 : 6) >> 16);
    Weight weight = test.weight(random);
    weight.data = reinterpret_cast<const std::byte*>(values.data());
    std::vector<float> rows(static_cast<std::size_t>(3 * test.columns));
    for (float& value : rows)
      value = std::bit_cast<float>(small_bf16(random, denormal ? 0 : 60, denormal ? 130 : 6));
    const std::vector<float> expected = LinearMachine(test, weight, "portable", 1, 8).run(rows);
    for (const float value : expected) {
      EXPECT_FALSE(std::fpclassify(value) == FP_SUBNORMAL) << value;
      (value == 0 ? zeros : others) += 1;
    }
    for (const cpu::Kernels* kernels : cpu::available_kernels()) {
      const std::vector<float> got = LinearMachine(test, weight, kernels->name, 1, 8).run(rows);
      ASSERT_TRUE(std::ranges::equal(got, expected, {}, std::bit_cast<std::uint32_t, float>,
                                     std::bit_cast<std::uint32_t, float>))
          << kernels->name << ", round " << round;
    }
  }
  EXPECT_GT(zeros, 200);
  EXPECT_GT(others, 200);
}

TEST(CpuLinear, OfBf16TakesInfinitiesAndNaNs) {
  const LinearCase test{.format = Format::kBf16, .columns = 33};
  RandomWeights random(9);
  const Weight weight = test.weight(random);
  std::vector<float> rows(static_cast<std::size_t>(test.columns), 1.0F);
  rows[5] = std::numeric_limits<float>::quiet_NaN();
  for (const cpu::Kernels* kernels : cpu::available_kernels()) {
    LinearMachine machine(test, weight, kernels->name, 1, 8);
    for (const float value : machine.run(rows)) EXPECT_TRUE(std::isnan(value)) << kernels->name;
  }
  rows[5] = std::numeric_limits<float>::infinity();
  for (const cpu::Kernels* kernels : cpu::available_kernels()) {
    LinearMachine machine(test, weight, kernels->name, 1, 8);
    for (const float value : machine.run(rows)) EXPECT_FALSE(std::isfinite(value)) << kernels->name;
  }
}

TEST(CpuLinear, TakesRowsOfZerosAndOfHugeValues) {
  const LinearCase test;
  RandomWeights random(8);
  const Weight weight = test.weight(random);
  LinearMachine machine(test, weight, "auto", 2, 8);
  const std::vector<float> zeros(static_cast<std::size_t>(test.columns), 0.0F);
  for (const float value : machine.run(zeros)) EXPECT_EQ(value, 0);
  std::vector<float> huge = zeros;
  huge[3] = 1e30F;
  for (const float value : machine.run(huge)) EXPECT_TRUE(std::isfinite(value));
}

}  // namespace
}  // namespace ft::cpu_linear_test
