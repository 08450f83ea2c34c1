// Placements, stages and the sentences of divisions that cannot be. tests/split_test.cpp compares bits.
#include <gtest/gtest.h>

#include "backends/registry.h"
#include "backends/split/backend.h"
#include "backends/split/choice.h"
#include "backends/split/executable.h"
#include "backends/test_programs.h"
#include "program/forwarding_backend.h"

namespace ft::split::division_test {
namespace {

class Divided : public testing::Test {
 protected:
  Program program_of(const TestShape& shape) {
    made_.push_back(std::make_unique<TestProgram>(shape, 3));
    return made_.back()->program;
  }
  std::string refusal(const BackendOptions& options) {
    const auto made = make_backend(options);
    return made.ok() ? "" : made.error().message;
  }

  std::vector<std::unique_ptr<TestProgram>> made_;
  Program plain_ = program_of({}), mixture_ = program_of(TestShape::mixture());
};

TEST_F(Divided, ALayerBeginsWhereTheResidualRowAloneIsAlive) {
  const std::vector<Layer> layers = layers_of(plain_);
  std::int64_t bytes = 0;
  for (const Layer& layer : layers) bytes += layer.bytes;
  EXPECT_EQ(bytes, plain_.bytes_held());
  for (std::size_t at = 1; at < layers.size(); ++at) {
    std::vector<int> counts = {static_cast<int>(at), static_cast<int>(layers.size() - at)};
    const Stages stages = *cut(plain_, *place_layers(plain_, counts));
    ASSERT_EQ(stages.list.size(), 2U);
    EXPECT_EQ(stages.list[1].inputs.size(), 1U) << at;
  }
}

TEST_F(Divided, EachInstructionIsInOneStageAndRowsComeFromEarlierOnes) {
  const Stages stages = *cut(mixture_, place_experts(mixture_, -1));
  std::size_t instructions = 0, experts = 0;
  for (std::size_t s = 0; s < stages.list.size(); ++s) {
    const Stage& stage = stages.list[s];
    for (const int input : stage.inputs)
      EXPECT_LT(stages.crossings[static_cast<std::size_t>(input)].stage, static_cast<int>(s));
    for (const Instruction& instruction : stage.program.instructions()) {
      const bool own =
          !std::holds_alternative<Input>(instruction) && !std::holds_alternative<Capture>(instruction);
      instructions += own ? 1 : 0;
      EXPECT_EQ(std::holds_alternative<MoeMlp>(instruction), own && stage.part == 1);
      experts += std::holds_alternative<MoeMlp>(instruction) ? 1 : 0;
    }
  }
  std::size_t all = 0;
  for (const Instruction& instruction : mixture_.instructions())
    all += std::holds_alternative<Capture>(instruction) ? 0 : 1;
  EXPECT_EQ(instructions, all);
  EXPECT_GT(experts, 0U);
  EXPECT_EQ(stages.list.size(), 2 * experts + 1);
}

TEST_F(Divided, UnequalMemoryGetsUnequalLayers) {
  std::vector<Layer> layers(10);
  for (Layer& layer : layers) layer.bytes = 10;
  const auto share = [&](std::vector<std::int64_t> free) { return *share_layers(layers, free); };
  EXPECT_EQ(share({100, 100}), (std::vector<int>{5, 5}));
  EXPECT_EQ(share({300, 100}), (std::vector<int>{8, 2}));
  EXPECT_EQ(share({1000, 20, 1000}), (std::vector<int>{5, 1, 4}));
  EXPECT_EQ(share_layers(layers, std::vector<std::int64_t>{30, 40}).error().message.find("4 layers take"),
            0U);
  EXPECT_EQ(share_layers({layers.data(), 1}, std::vector<std::int64_t>{30, 40}).error().message,
            "2 devices for 1 layers; name fewer devices");
}

TEST_F(Divided, LayersThatShareKeysAndValuesStayTogether) {
  TestShape shape = TestShape::widened();
  shape.shares = true;
  const Program shared = program_of(shape);
  const int layers = static_cast<int>(layers_of(shared).size());
  bool refused = false;
  for (int first = 1; first < layers; ++first) {
    const Result<Placement> placed = place_layers(shared, std::vector<int>{first, layers - first});
    if (placed.ok()) continue;
    refused = true;
    EXPECT_NE(placed.error().message.find("give the layers that share them to one device"),
              std::string::npos);
  }
  EXPECT_TRUE(refused);
}

TEST_F(Divided, DevicesAreReadOrRefused) {
  const std::vector<DeviceName> devices = *read_devices("cuda:1=20,3,cpu=4", "cuda");
  ASSERT_EQ(devices.size(), 3U);
  EXPECT_EQ(devices[0].text(), "cuda:1");
  EXPECT_EQ(devices[0].layers, 20);
  EXPECT_EQ(devices[1].text(), "cuda:3");
  EXPECT_EQ(devices[2].backend, "cpu");
  for (const char* wrong : {"cuda:", ":1", "cuda=0", "cuda=x", ",", "auto", "1:2", "cpu,,cpu"})
    EXPECT_FALSE(read_devices(wrong, "cuda").ok()) << wrong;
}

TEST_F(Divided, WhatCannotBeDividedIsRefusedWithASentence) {
  BackendOptions options{.name = "ref"};
  options.target = &mixture_;
  const auto with = [&](BackendSettings settings) {
    options.settings = std::move(settings);
    return refusal(options);
  };
  EXPECT_EQ(with({{"experts", "gpu"}}),
            "--experts: expected device, cpu or cpu=LAYERS (1 to 4096), found 'gpu'");
  EXPECT_EQ(with({{"experts", "cpu=0"}}).find("--experts: expected"), 0U);
  EXPECT_EQ(with({{"split", "rows"}}), "--split: expected none, layers, tensor or auto, found 'rows'");
  EXPECT_EQ(with({{"split", "layers"}, {"devices", "ref"}}).find("--split layers needs two devices"), 0U);
  EXPECT_EQ(with({{"split", "layers"}, {"devices", "ref=1,ref"}}),
            "--devices gives 1 of 2 devices a number of layers; give it to all or to none");
  EXPECT_EQ(with({{"split", "layers"}, {"devices", "ref,blue"}}).find("--devices blue: backend 'blue'"), 0U);
  EXPECT_NE(with({{"split", "layers"}, {"devices", "ref=1,ref=99"}}).find("with 1 + 99 layers"),
            std::string::npos);
  EXPECT_EQ(with({{"devices", "ref,ref"}}).find("--devices without --split"), 0U);
  EXPECT_NE(with({{"split", "layers"}, {"experts", "cpu"}}).find("in two ways"), std::string::npos);
  EXPECT_EQ(with({{"experts", "cpu"}}), "");
  EXPECT_EQ(with({{"split", "layers"}, {"devices", "ref,ref"}}), "");
  options.host_bytes = 1000;
  EXPECT_EQ(with({{"experts", "cpu"}}).find("--experts: the routed experts take"), 0U);
  options.target = nullptr;
  EXPECT_EQ(with({{"split", "layers"}, {"devices", "ref,ref"}}).find("--split layers: this command"), 0U);
}

TEST_F(Divided, ADivisionNamesItsArithmeticAndItsDevices) {
  BackendOptions options{.name = "ref", .threads = 1, .settings = {{"experts", "cpu"}}};
  options.target = &mixture_;
  const auto made = make_backend(options);
  ASSERT_TRUE(made.ok());
  EXPECT_EQ((*made)->arithmetic().find("all but routed experts on reference float32"), 0U);
  EXPECT_NE((*made)->arithmetic().find("; routed experts on cpu"), std::string::npos);
  const std::vector<std::string> lines = *division_lines(options);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[1].find("2 (cpu): routed experts, 0.00 GB of weights"), 0U) << lines[1];
  options.settings = {};
  EXPECT_TRUE(division_lines(options)->empty());
}

/// Says that it has `bytes_` of memory.
class Sized final : public ForwardingBackend {
 public:
  Sized(std::int64_t bytes) : ForwardingBackend(std::move(*make_backend({.name = "ref"}))), bytes_(bytes) {}
  Limits limits(const StateLayout& layout) const override {
    Limits limits = ForwardingBackend::limits(layout);
    limits.memory_bytes = bytes_;
    return limits;
  }

 private:
  std::int64_t bytes_;
};

TEST_F(Divided, AutoTakesTheFirstArrangementThatHasRoomAndSaysWhy) {
  // Room on each GPU, as a part of the model's bytes in percent.
  const auto chosen = [&](const Program& program, const std::string& devices, int percent) {
    BackendOptions options{.name = "gpu", .settings = {{"split", "auto"}}};
    if (!devices.empty()) options.settings.set({"devices", devices});
    options.target = &program, options.host_bytes = 2 * program.bytes_held();
    std::string told;
    options.notice = [&](const std::string& text) { told = text; };
    const auto made = make(options, [&](const BackendOptions& one) -> Result<std::unique_ptr<Backend>> {
      if (one.name == "cpu") return make_backend({.name = "cpu", .threads = 1});
      return std::unique_ptr<Backend>(std::make_unique<Sized>(program.bytes_held() * percent / 100));
    });
    return made.ok() ? told : made.error().message;
  };
  EXPECT_EQ(chosen(plain_, "gpu:0,gpu:1", 150),
            "--split auto: the whole model on gpu:0, which has room for it");
  EXPECT_EQ(
      chosen(plain_, "gpu:0,gpu:1", 80).find("--split auto: layers over gpu:0,gpu:1, because one device: "),
      0U);
  EXPECT_EQ(chosen(mixture_, "gpu:0,gpu:1", 80).find("--split auto: layers over gpu:0,gpu:1, because"), 0U);
  EXPECT_EQ(chosen(mixture_, "gpu:0,cpu", 95)
                .find("--split auto: routed experts on the processors, the rest on "
                      "gpu:0, because one device: the weights take"),
            0U);
  EXPECT_EQ(chosen(plain_, "gpu:0", 60).find("--split auto: layers over gpu:0,cpu, because"), 0U);
  EXPECT_EQ(chosen(plain_, "gpu:0,gpu:1", 10).find("--split auto: the model fits nowhere: one device: "), 0U);
}

/// Loses its device at step `at`.
class Losing final : public ForwardingBackend {
 public:
  Losing() : ForwardingBackend(std::move(make_backend({.name = "ref"}).value())) {}
  Result<std::unique_ptr<Executable>> compile(const Program& program,
                                              const CompileOptions& options) override {
    class Lost final : public ForwardingExecutable {
     public:
      using ForwardingExecutable::ForwardingExecutable;
      void submit(const StepArgs&, State&) override { throw BackendLost("it fell off the bus"); }
    };
    FT_ASSIGN(std::unique_ptr<Executable> executable, inner().compile(program, options));
    return std::unique_ptr<Executable>(std::make_unique<Lost>(std::move(executable)));
  }
};

TEST_F(Divided, ALostDeviceIsNamed) {
  const auto divided = std::move(*with_experts({"ref", std::move(*make_backend({.name = "ref"}))},
                                               {"cpu", std::make_unique<Losing>()}, -1));
  const auto executable = std::move(*divided->compile(mixture_, {.max_rows = 4, .max_logit_rows = 1}));
  const auto state = std::move(*divided->make_state(mixture_.layout(), {}));
  const std::int32_t block = 0, token = 1, last = 0;
  const Segment segment{{{&block, 1}, 0, 0, 0}, 0, 1, 1};
  StepArgs args;
  args.tokens = {&token, 1}, args.segments = {&segment, 1}, args.logit_rows = {&last, 1};
  try {
    executable->submit(args, *state);
    FAIL() << "the step has run";
  } catch (const BackendLost& lost) {
    EXPECT_STREQ(lost.what(), "device 2 (cpu): it fell off the bus");
  }
}

}  // namespace
}  // namespace ft::split::division_test
