// Instructions that one launch does together: chains of norms, biases and sums of plain linears, and plain
// linears with many outputs.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backends/cuda/on_cuda_device_test.h"

namespace ft {
namespace {

class CudaFused : public OnCudaDevice {};

/// Norms with what is added to them, a factor and another norm, in one launch; the sum is read again.
TEST_P(CudaFused, ChainsOfNorms) {
  for (const int width : {64, 320, 5376}) {
    for (int kind = 0; kind < 5; ++kind) {
      SCOPED_TRACE(fmt::format("width {}, kind {}", width, kind));
      Program program;
      const Row in = program.input(2 * width), x = part(program, in, 0, width),
                other = part(program, in, width, width);
      const auto normed = [&](Row row) {
        return program.norm(row, random_.plain(Format::kBf16, 1, width, 0.3F, 1), 1e-6F);
      };
      Row row = normed(x);
      if (kind != 1) row = kind == 2 ? program.add(row, other) : program.add(other, row);
      if (kind != 2) row = program.append(Scale{row, 0.7F, {}});
      if (kind == 0) {
        program.capture("out", row);
      } else if (kind == 4) {  // the second norm begins another chain
        program.capture("out", program.add(row, normed(row)));
      } else {
        const Row product = program.linear(normed(row), {random_.affine(48, width, 4, 64)})[0];
        program.capture("out", program.concat(row, product));
      }
      expect_like_the_reference(program, in.width, kind == 0 || kind == 4 ? 1e-6 : 0.01, "a chain of norms");
    }
  }
}

/// Plain linears with biases and sums; a bias that another one shares its row with stays on its own.
TEST_P(CudaFused, BiasesOfPlainLinears) {
  const auto plain = [&](int rows, int cols) { return random_.plain(Format::kBf16, rows, cols, 0.2F); };
  for (int kind = 0; kind < 4; ++kind) {
    SCOPED_TRACE(kind);
    Program program;
    const Row in = program.input(96);
    const auto biased = [&](Row row) {
      return program.bias(row, random_.plain(Format::kF32, 1, row.width, 0.5F));
    };
    if (kind == 0) {
      const std::vector<Row> outs = program.linear(in, {plain(40, 96), plain(17, 96)});
      const Row first = biased(outs[0]);
      program.capture("out", program.concat(first, biased(outs[1])));
    } else if (kind == 1) {
      program.capture("out", program.add(in, biased(program.linear(in, {plain(96, 96)})[0])));
    } else if (kind == 2) {
      const Row out = program.linear(in, {plain(40, 96)})[0], moved = biased(out);
      program.capture("out", program.concat(out, moved));
    } else {
      program.capture("out", biased(program.linear(in, {random_.affine(48, 96, 8, 32)})[0]));
    }
    expect_like_the_reference(program, 96, kind == 3 ? 0.01 : 1e-6, "biases");
  }
}

/// A kernel that loads a row once for several outputs has the bits of the one that does not.
TEST_P(CudaFused, PlainLinearsOfManyOutputsHaveTheSameBitsForAnyNumberOfRows) {
  const int processors = GetParam() == "emulated" ? 4 : 132;  // two, four and four outputs a warp
  for (const auto& [outputs, inputs] : {std::pair{17 * processors, 264}, std::pair{35 * processors, 1000},
                                        std::pair{60 * processors + 3, 520}}) {
    Program program;
    const Row in = program.input(inputs);
    program.capture("out", program.linear(in, {random_.plain(Format::kBf16, outputs, inputs, 1)})[0]);
    const std::vector<float> rows = random_rows(random_, kRows, inputs);
    const std::vector<float> expected = captured_rows(*backend_, program, rows, inputs, 35);
    for (const int chunk : {1, 2, 3, 4, 5, 8, 9, 17}) {
      EXPECT_EQ(captured_rows(*backend_, program, rows, inputs, chunk), expected)
          << outputs << "x" << inputs << " by " << chunk;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, CudaFused, testing::ValuesIn(cuda_devices()),
                         [](const auto& device) { return device.param == "auto" ? "gpu" : device.param; });

}  // namespace
}  // namespace ft
