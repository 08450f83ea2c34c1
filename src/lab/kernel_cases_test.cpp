#include "lab/kernel_cases.h"

#include <gtest/gtest.h>
#include <set>

#include "backends/registry.h"
#include "lab/bench_kernels.h"
#include "program/check.h"

namespace ft::kernel_cases_test {
namespace {

KernelFilter tiny(std::vector<std::string> formats) {
  KernelFilter filter;
  filter.models = {"tiny"}, filter.formats = std::move(formats);
  return filter;
}

std::unique_ptr<Backend> host() { return std::move(make_backend({.name = "cpu", .threads = 1}).value()); }

TEST(KernelCases, EveryRoleIsAProgramOfItsInstruction) {
  KernelFilter filter = tiny({"4"});
  filter.models.emplace_back("tiny-experts");
  const auto cases = kernel_cases(filter, *host());
  ASSERT_TRUE(cases.ok()) << cases.error().message;
  SynthPool pool(0);
  std::set<std::string> roles;
  for (const KernelCase& kernel : *cases) {
    roles.insert(kernel.role);
    const Program program = kernel_program(kernel, kernel.instruction == "logits" ? 1 : 3, pool);
    EXPECT_TRUE(check(program).ok()) << kernel.role;
    EXPECT_EQ(instruction_name(program.instructions().back()), kernel.instruction) << kernel.role;
    EXPECT_FALSE(kernel.shape.empty()) << kernel.role;
  }
  EXPECT_EQ(roles.size(), kernel_roles().size());
}

TEST(KernelCases, EveryFormatRunsOnTheCpu) {
  KernelFilter filter = tiny(kernel_formats());
  filter.shapes = {"96x128"};
  const auto cases = kernel_cases(filter, *host());
  ASSERT_TRUE(cases.ok()) << cases.error().message;
  ASSERT_EQ(cases->size(), kernel_formats().size());
  const auto backend = host();
  KernelBench bench(*backend, 1, 1, 40);
  std::vector<KernelFigures> all;
  for (const KernelCase& kernel : *cases) {
    const auto figures = bench.measure(kernel, {1, 2, 20});
    ASSERT_TRUE(figures.ok()) << kernel.format.name << ": " << figures.error().message;
    ASSERT_EQ(figures->size(), 3U);
    EXPECT_EQ(figures->back().rows, 20);
    EXPECT_EQ(figures->front().t_over_t1, 1);
    all.insert(all.end(), figures->begin(), figures->end());
  }
  EXPECT_NE(kernels_text(all).find("96x128"), std::string::npos);
}

TEST(KernelCases, BytesAreThoseOfTheStoredWeights) {
  KernelFilter filter = tiny({"4", "8", "bf16"});
  filter.shapes = {"10x64"};
  const auto cases = kernel_cases(filter, *host());
  ASSERT_TRUE(cases.ok());
  EXPECT_EQ(cases->at(0).memory_bytes, 10 * (32 + 4));
  EXPECT_EQ(cases->at(1).memory_bytes, 10 * (64 + 4));
  EXPECT_EQ(cases->at(2).memory_bytes, 10 * 128);
}

TEST(KernelCases, FiltersLeaveWhatTheyName) {
  KernelFilter filter = tiny({"4"});
  filter.instructions = {"linear"}, filter.shapes = {"down", "attend"};
  const auto cases = kernel_cases(filter, *host());
  ASSERT_TRUE(cases.ok());
  ASSERT_EQ(cases->size(), 1U);
  EXPECT_EQ(cases->front().role, "down");
  filter.instructions = {"norm"};
  EXPECT_FALSE(kernel_cases(filter, *host()).ok());
  filter.shapes = {"12x"};
  const auto wrong = kernel_cases(filter, *host());
  ASSERT_FALSE(wrong.ok());
  EXPECT_NE(wrong.error().message.find("gate_up"), std::string::npos) << wrong.error().message;
}

}  // namespace
}  // namespace ft::kernel_cases_test
