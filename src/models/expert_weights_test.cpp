// The layouts in which experts are stored: each gives the same model, bit for bit, and a missing or ragged
// expert is named with its layer.
#include "models/expert_weights.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backends/ref/backend.h"
#include "backends/test_rows.h"
#include "base/log.h"
#include "format/affine.h"
#include "models/model.h"
#include "tests/copied_model.h"

namespace ft::expert_weights_test {
namespace {

using test::CopiedModel;
using Tensor = CopiedModel::Tensor;

constexpr int kExperts = 11, kSize = 24, kHidden = 96;
const std::string kTrunk = "model.language_model.";

std::vector<float> logits_of(const std::string& folder) {
  const Result<Model> model = load_model(folder);
  if (!model.ok()) {
    ADD_FAILURE() << model.error().message;
    return {};
  }
  const auto backend = make_ref_backend();
  const auto executable = std::move(*backend->compile(model->target, {8, 8}));
  const auto state = std::move(*backend->make_state(model->target.layout(), {1, 1}));
  const std::vector<std::int32_t> tokens = {3, 141, 59, 26, 5}, wanted = {0, 1, 2, 3, 4};
  const std::int32_t block = 0;
  const Segment segment{{{&block, 1}, 0, 0, 0}, 0, 5, 5};
  const StepResult result =
      run_rows(*backend, *executable, *state, {tokens, {}, {&segment, 1}, wanted, {}, {}}, {}, 0).result;
  return {result.logits.begin(), result.logits.end()};
}

std::string message_of(CopiedModel& copy) {
  const Result<Model> model = load_model(copy.write());
  return model.ok() ? "ok" : model.error().message;
}

/// Rows [first, first + rows) of each matrix of a stack.
Tensor rows_of_each(const Tensor& stack, std::int64_t first, std::int64_t rows) {
  Tensor part{stack.dtype, {stack.shape[0], rows, stack.shape[2]}, {}};
  const std::size_t matrix = stack.data.size() / static_cast<std::size_t>(stack.shape[0]);
  const std::size_t row = matrix / static_cast<std::size_t>(stack.shape[1]);
  for (std::int64_t e = 0; e < stack.shape[0]; ++e) {
    part.data +=
        stack.data.substr(static_cast<std::size_t>(e) * matrix + static_cast<std::size_t>(first) * row,
                          static_cast<std::size_t>(rows) * row);
  }
  return part;
}

/// A layer's fused stacks as a stack for each projection, with `leaf` after each name.
void unfuse(CopiedModel& copy, const std::string& mlp) {
  const Tensor both = copy.tensors.at(mlp + "experts.gate_up_proj");
  copy.tensors[mlp + "switch_mlp.gate_proj.weight"] = rows_of_each(both, 0, kSize);
  copy.tensors[mlp + "switch_mlp.up_proj.weight"] = rows_of_each(both, kSize, kSize);
  copy.tensors[mlp + "switch_mlp.down_proj.weight"] = copy.tensors.at(mlp + "experts.down_proj");
  copy.erase_prefix(mlp + "experts.");
}

/// A stack as one tensor for each expert.
void unstack(CopiedModel& copy, const std::string& mlp) {
  for (const char* leaf : {"gate_proj", "up_proj", "down_proj"}) {
    for (const char* part : {".weight", ".scales", ".biases"}) {
      const auto found = copy.tensors.find(mlp + "switch_mlp." + leaf + part);
      if (found == copy.tensors.end()) continue;
      const Tensor stack = found->second;
      const std::size_t bytes = stack.data.size() / kExperts;
      for (std::size_t e = 0; e < kExperts; ++e) {
        copy.tensors[fmt::format("{}experts.{}.{}{}", mlp, e, leaf, part)] = {
            stack.dtype, {stack.shape[1], stack.shape[2]}, stack.data.substr(e * bytes, bytes)};
      }
      copy.tensors.erase(found);
    }
  }
}

/// Replaces the stack by codes of 4 bits in groups of 32.
void quantise(CopiedModel& copy, const std::string& module) {
  const Tensor plain = copy.tensors.at(module + ".weight");
  const std::int64_t rows = plain.shape[1], cols = plain.shape[2], all = plain.shape[0] * rows;
  std::vector<float> values(static_cast<std::size_t>(all * cols));
  format::load_floats(reinterpret_cast<const std::byte*>(plain.data.data()), plain.dtype, 0, values.size(),
                      values.data());
  const format::AffineMatrix codes = format::quantise_affine(values, all, cols, 4, 32, format::DType::kBF16);
  const auto text = [](const auto& data) {
    return std::string(reinterpret_cast<const char*>(data.data()), data.size() * sizeof(data[0]));
  };
  copy.tensors[module + ".weight"] = {format::DType::kU32, {kExperts, rows, cols / 8}, text(codes.words)};
  copy.tensors[module + ".scales"] = {format::DType::kBF16, {kExperts, rows, cols / 32}, text(codes.scales)};
  copy.tensors[module + ".biases"] = {format::DType::kBF16, {kExperts, rows, cols / 32}, text(codes.biases)};
}

/// Replaces a matrix by codes of 8 bits in groups of 32, or by the values that these codes have.
void quantise_router(CopiedModel& copy, const std::string& module, bool as_codes) {
  const Tensor plain = copy.tensors.at(module + ".weight");
  const std::int64_t rows = plain.shape[0], cols = plain.shape[1];
  std::vector<float> values(static_cast<std::size_t>(rows * cols));
  format::load_floats(reinterpret_cast<const std::byte*>(plain.data.data()), plain.dtype, 0, values.size(),
                      values.data());
  const format::AffineMatrix codes = format::quantise_affine(values, rows, cols, 8, 32, format::DType::kBF16);
  const auto text = [](const auto& data) {
    return std::string(reinterpret_cast<const char*>(data.data()), data.size() * sizeof(data[0]));
  };
  if (!as_codes) {
    format::dequantise_rows(format::stored(codes, module), 0, rows, values.data());
    copy.tensors[module + ".weight"] = {format::DType::kF32, {rows, cols}, text(values)};
    return;
  }
  copy.tensors[module + ".weight"] = {format::DType::kU32, {rows, cols / 4}, text(codes.words)};
  copy.tensors[module + ".scales"] = {format::DType::kBF16, {rows, cols / 32}, text(codes.scales)};
  copy.tensors[module + ".biases"] = {format::DType::kBF16, {rows, cols / 32}, text(codes.biases)};
}

class ExpertWeightsTest : public testing::Test {
 protected:
  void SetUp() override { set_log_level(LogLevel::kOff); }
  void TearDown() override { set_log_level(LogLevel::kInfo); }
  static std::string mlp(int layer) { return fmt::format("{}layers.{}.mlp.", kTrunk, layer); }
  void expect_error(const std::vector<std::string>& words) {
    const std::string message = message_of(copy_);
    for (const std::string& word : words) EXPECT_NE(message.find(word), std::string::npos) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }

  CopiedModel copy_{"tests/golden/odd_experts"};
};

TEST_F(ExpertWeightsTest, EveryLayoutGivesTheSameModel) {
  const std::vector<float> fused = logits_of(copy_.write());
  unfuse(copy_, mlp(0));
  unfuse(copy_, mlp(2));
  EXPECT_EQ(logits_of(copy_.write()), fused) << "stacks for each projection";
  unstack(copy_, mlp(0));
  EXPECT_EQ(logits_of(copy_.write()), fused) << "one by one";
}

TEST_F(ExpertWeightsTest, QuantisedStacksAreSlicedWithTheirScales) {
  unfuse(copy_, mlp(1));
  const std::vector<float> plain = logits_of(copy_.write());
  quantise(copy_, mlp(1) + "switch_mlp.gate_proj");
  quantise(copy_, mlp(1) + "switch_mlp.up_proj");
  const std::vector<float> stacked = logits_of(copy_.write());
  EXPECT_NE(stacked, plain);
  unstack(copy_, mlp(1));
  EXPECT_EQ(logits_of(copy_.write()), stacked);
}

TEST_F(ExpertWeightsTest, RouterAndSharedGateMayHaveBitsOfTheirOwn) {
  CopiedModel plain{"tests/golden/odd_experts"};
  std::string overrides = R"("quantization": {"bits": 4, "group_size": 32)";
  for (const int layer : {0, 1}) {
    for (CopiedModel* copy : {&copy_, &plain}) {
      unfuse(*copy, mlp(layer));
      quantise(*copy, mlp(layer) + "switch_mlp.gate_proj");
      quantise(*copy, mlp(layer) + "switch_mlp.up_proj");
      for (const char* module : {"gate", "shared_expert_gate"})
        quantise_router(*copy, mlp(layer) + module, copy == &copy_);
    }
    for (const char* module : {"gate", "shared_expert_gate"}) {
      overrides += fmt::format(
          R"(, "language_model.model.layers.{}.mlp.{}": {{"bits": 8, "group_size": 32}})", layer, module);
    }
  }
  const std::size_t brace = copy_.config.find('{') + 1;
  copy_.config.insert(brace, overrides + "},");
  plain.config.insert(brace, R"("quantization": {"bits": 4, "group_size": 32},)");
  const std::vector<float> codes = logits_of(copy_.write());
  ASSERT_FALSE(codes.empty());
  EXPECT_EQ(codes, logits_of(plain.write()));
}

TEST_F(ExpertWeightsTest, AMissingExpertIsNamedWithItsLayer) {
  unfuse(copy_, mlp(1));
  unstack(copy_, mlp(1));
  copy_.tensors.erase(mlp(1) + "experts.7.up_proj.weight");
  expect_error({"layers.1, expert 7: ", "experts.7.up_proj", "download it again"});
}

TEST_F(ExpertWeightsTest, ARaggedExpertIsNamedWithItsLayer) {
  unfuse(copy_, mlp(2));
  unstack(copy_, mlp(2));
  Tensor& down = copy_.tensors.at(mlp(2) + "experts.3.down_proj.weight");
  std::swap(down.shape[0], down.shape[1]);
  expect_error({"layers.2, expert 3: ", "experts.3.down_proj", "[96,24]", "[24,96]"});
}

TEST_F(ExpertWeightsTest, AnExpertInAnotherFormatIsNamedWithItsLayer) {
  unfuse(copy_, mlp(2));
  unstack(copy_, mlp(2));
  copy_.to_float(mlp(2) + "experts.5.down_proj.weight", 0);
  expect_error({"layers.2, expert 5: ", "experts.5.down_proj", "quantise the experts of a layer alike"});
}

TEST_F(ExpertWeightsTest, MoreExpertsThanTheConfigSaysAreRefused) {
  copy_.edit("\"num_experts\": 11", "\"num_experts\": 10");
  for (int layer = 0; layer < 3; ++layer) {
    Tensor& router = copy_.tensors.at(mlp(layer) + "gate.weight");
    router.data.resize(router.data.size() / kExperts * 10);
    router.shape[0] = 10;
  }
  expect_error({"layers.0: ", "experts.gate_up_proj", "[10,48,..]", "[11,48,96]"});
  for (int layer = 0; layer < 3; ++layer) {
    unfuse(copy_, mlp(layer));
    unstack(copy_, mlp(layer));
  }
  expect_error({"layers.0, expert 10: ", "expected experts 0 to 9"});
}

TEST_F(ExpertWeightsTest, AStackOfTheWrongDepthNamesTheTensor) {
  Tensor& stack = copy_.tensors.at(mlp(1) + "experts.down_proj");
  stack.shape = {kExperts * kHidden, kSize};
  expect_error({"layers.1: ", "experts.down_proj", "[11,96,..], one matrix for each expert"});
}

TEST_F(ExpertWeightsTest, AHeadThatLacksAnExpertIsIncompleteAndTheModelRuns) {
  const std::vector<float> whole = logits_of(copy_.write());
  copy_.tensors.erase("mtp.layers.0.mlp.experts.10.down_proj.weight");
  const Result<Model> model = load_model(copy_.write());
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_EQ(model->mtp_head.state, HeadReport::State::kIncomplete);
  EXPECT_NE(model->mtp_head.sentence.find("mtp.layers.0.mlp.experts.10.down_proj"), std::string::npos)
      << model->mtp_head.sentence;
  EXPECT_EQ(logits_of(copy_.folder().path()), whole);
}

}  // namespace
}  // namespace ft::expert_weights_test
