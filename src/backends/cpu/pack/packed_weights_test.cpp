#include "backends/cpu/pack/packed_weights.h"

#include <algorithm>
#include <filesystem>
#include <gtest/gtest.h>
#include <unistd.h>

#include "backends/random_weights.h"
#include "backends/registry.h"
#include "backends/test_programs.h"

namespace ft::cpu::packed_weights_test {
namespace {

class PackedWeightsTest : public testing::Test {
 protected:
  std::unique_ptr<Executable> compile(const Program& program) {
    return std::move(backend_->compile(program, {.max_rows = 8, .max_logit_rows = 8}).value());
  }
  std::vector<float> logits(const Program& program, Executable& executable) {
    const auto state = std::move(backend_->make_state(program.layout(), {.slots = 1, .blocks = 2}).value());
    const std::vector<std::int32_t> blocks = {0, 1}, tokens = {1, 2, 3, 4, 5}, rows = {0, 1, 2, 3, 4};
    const Segment segment{{blocks, 0, 0, 0}, 0, 5, 5};
    StepArgs args;
    args.tokens = tokens, args.segments = {&segment, 1}, args.logit_rows = rows;
    const StepResult result = executable.run(args, *state);
    return {result.logits.begin(), result.logits.end()};
  }

  std::unique_ptr<Backend> backend_ = std::move(make_backend({.name = "cpu", .threads = 2}).value());
};

TEST_F(PackedWeightsTest, AWeightThatAnotherProgramHasPackedIsNotPackedAgain) {
  const TestProgram test(TestShape{}, 3);
  auto first = compile(test.program);
  const std::vector<float> expected = logits(test.program, *first);
  EXPECT_GT(first->packed_bytes(), 0);
  const auto second = compile(test.program);
  EXPECT_EQ(second->packed_bytes(), 0);
  EXPECT_EQ(logits(test.program, *second), expected);
  first.reset();
  EXPECT_EQ(logits(test.program, *second), expected) << "the copy lives as long as a program uses it";
}

TEST_F(PackedWeightsTest, WhatNobodyUsesAnyMoreIsPackedAgain) {
  const TestProgram test(TestShape{}, 3);
  const std::int64_t bytes = compile(test.program)->packed_bytes();
  EXPECT_EQ(compile(test.program)->packed_bytes(), bytes);
}

TEST_F(PackedWeightsTest, OtherWeightsOtherRowsAndOtherBitsAreNotTheSame) {
  TestShape shape;
  shape.bits = 8;
  const TestProgram test(shape, 3), other(shape, 4);
  const auto first = compile(test.program);
  const std::int64_t bytes = first->packed_bytes();
  EXPECT_EQ(compile(other.program)->packed_bytes(), bytes);
  Program fewer_bits = test.program;
  fewer_bits.set_max_weight_bits(4);
  EXPECT_GT(compile(fewer_bits)->packed_bytes(), bytes / 4);
  shape.ids = {1, 2, 3, 5, 8, 13};
  const TestProgram reduced(shape, 3);
  Program part = reduced.program;
  EXPECT_GT(compile(part)->packed_bytes(), 0);
}

/// The packed bytes of a weight on `memory_nodes` memory nodes. This machine may have one: more are claimed.
std::vector<std::byte> packed(const Weight& weight, const PackedCacheOptions& cache, int memory_nodes) {
  ThreadPool pool(3);
  PackedWeights weights(std::make_shared<SharedWeights>());
  EXPECT_TRUE(weights.add(weight, {}, 0).ok());
  EXPECT_TRUE(weights.fill(pool, cache, {}, memory_nodes).ok());
  if (memory_nodes > 1) {  // bytes that are still only in the file would be lost
    for (const auto& file : std::filesystem::directory_iterator(cache.folder))
      std::filesystem::resize_file(file, 0);
  }
  const Packed& one = *weights.at(0);
  return {one.data, one.data + one.bytes()};
}

TEST_F(PackedWeightsTest, OnSeveralMemoryNodesTheWorkersHaveCopiesOfAMappedFile) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(testing::TempDir()) / ("nodes_" + std::to_string(::getpid()));
  fs::remove_all(folder);
  RandomWeights random(5);
  const Weight weight = random.affine(3000, 512, 4, 64, Format::kBf16);
  const std::vector<std::byte> expected = packed(weight, {}, 1);
  const PackedCacheOptions cache{folder.string(), "toy", "/models/toy", std::string(32, 'a')};
  EXPECT_EQ(packed(weight, cache, 1), expected) << "written and mapped";
  EXPECT_EQ(packed(weight, cache, 2), expected) << "mapped and copied";
  EXPECT_EQ(packed(weight, cache, 2), expected) << "written, mapped and copied";
  fs::remove_all(folder);
}

}  // namespace
}  // namespace ft::cpu::packed_weights_test
