// The fixture of tests that run programs on a CUDA device, the emulated one or a GPU, and compare them with
// `ref`. Owner: tests.
#pragma once

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>

#include "backends/cuda/test_devices.h"
#include "backends/instruction_programs.h"

namespace ft {

inline constexpr int kRows = 70;

class OnCudaDevice : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (const std::string why = why_not(GetParam()); !why.empty()) GTEST_SKIP() << why;
    backend_ = std::move(cuda_on(GetParam()).value());
  }

  /// Against the reference, and the same bits in every chunk.
  void expect_like_the_reference(const Program& program, int width, double tolerance, const char* what,
                                 bool in_chunks = true) {
    const std::vector<float> rows = random_rows(random_, kRows, width);
    const auto reference = std::move(make_backend({.name = "ref"}).value());
    const std::vector<float> expected = captured_rows(*reference, program, rows, width, kRows);
    const std::vector<float> got = captured_rows(*backend_, program, rows, width, kRows);
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i)
      ASSERT_TRUE(std::isfinite(got[i])) << what << ", number " << i;
    EXPECT_LT(difference(got, expected), tolerance) << what;
    if (!in_chunks) return;
    const bool slow = GetParam() == "emulated";
    for (const int chunk : slow ? std::vector<int>{9, 33} : std::vector<int>{1, 4, 9, 33}) {
      const std::vector<float> again =
          captured_rows(*backend_, program, rows, width, chunk, chunk == 9 ? 5 : 0);
      const auto differs = std::ranges::mismatch(again, got).in1 - again.begin();
      EXPECT_EQ(differs, std::ssize(got))
          << what << " by " << chunk << ": " << again[static_cast<std::size_t>(differs)];
    }
  }

  void expect_like_the_reference(const InstructionProgram& made, double tolerance, const char* what,
                                 bool in_chunks = true) {
    expect_like_the_reference(made.program, made.width, tolerance, what, in_chunks);
  }

  std::unique_ptr<Backend> backend_;
  RandomWeights random_{7};
};

}  // namespace ft
