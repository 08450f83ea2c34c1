// The head doctor on copies of the odd model, each wrong in one way. An unusable MTP head changes the speed
// of an answer, so the target must load and compute the same bits whatever is found.
#include "models/head_doctor.h"

#include <gtest/gtest.h>

#include "backends/ref/backend.h"
#include "backends/test_rows.h"
#include "base/log.h"
#include "models/model.h"
#include "tests/copied_model.h"

namespace ft::head_doctor_test {
namespace {

using test::CopiedModel;
using HeadState = HeadReport::State;

constexpr int kWidth = 96;

/// Logits of a short text, and rows of the MTP head if there is one.
struct Outputs {
  std::vector<float> target, head;
};

Outputs run(const Model& model) {
  const std::vector<std::int32_t> tokens = {372, 423, 151, 61, 28, 5, 516};
  const auto rows = static_cast<std::int32_t>(tokens.size());
  std::vector<std::int32_t> logit_rows;
  for (std::int32_t i = 0; i < rows; ++i) logit_rows.push_back(i);
  const auto backend = make_ref_backend();
  const std::int32_t block = 0;
  const Segment segment{{{&block, 1}, 0, 0, 0}, 0, rows, rows};
  Outputs outputs;
  const auto step = [&](const Program& program, std::span<const float> hidden) {
    const auto executable = std::move(*backend->compile(program, {16, 16}));
    const auto state = std::move(*backend->make_state(program.layout(), {1, 1}));
    const StepResult result =
        run_rows(*backend, *executable, *state, {tokens, {}, {&segment, 1}, logit_rows, {}, {}}, hidden, 0)
            .result;
    return std::vector<float>(result.logits.begin(), result.logits.end());
  };
  outputs.target = step(model.target, {});
  std::vector<float> hidden(tokens.size() * kWidth);
  for (std::size_t i = 0; i < hidden.size(); ++i) hidden[i] = static_cast<float>(i % 17) / 8 - 1;
  if (model.mtp) outputs.head = step(*model.mtp, hidden);
  return outputs;
}

class HeadDoctorTest : public testing::Test {
 protected:
  void SetUp() override {
    set_log_level(LogLevel::kOff);
    original_ = run(load(test::kOddModel));
    ASSERT_FALSE(original_.head.empty());
  }
  void TearDown() override { set_log_level(LogLevel::kInfo); }

  static Model load(const std::string& directory) {
    Result<Model> model = load_model(directory);
    EXPECT_TRUE(model.ok()) << (model.ok() ? "" : model.error().message);
    return std::move(*model);
  }

  /// The MTP head is reported as `state` in one line with the next step, and answers do not change.
  void expect_unusable(CopiedModel& copy, HeadState state, const std::vector<std::string>& said) {
    const Model model = load(copy.write());
    EXPECT_EQ(model.mtp_head.state, state)
        << head_state_name(model.mtp_head.state) << ": " << model.mtp_head.sentence;
    EXPECT_FALSE(model.mtp.has_value());
    EXPECT_FALSE(model.mtp_head.usable());
    EXPECT_TRUE(model.mtp_head.sentence.starts_with("MTP head: ")) << model.mtp_head.sentence;
    EXPECT_EQ(model.mtp_head.sentence.find('\n'), std::string::npos) << model.mtp_head.sentence;
    for (const std::string& words : said) {
      EXPECT_NE(model.mtp_head.sentence.find(words), std::string::npos)
          << words << " in: " << model.mtp_head.sentence;
    }
    EXPECT_EQ(run(model).target, original_.target);
  }

  Outputs original_;
  CopiedModel copy_{test::kOddModel};
};

TEST_F(HeadDoctorTest, AWholeHeadIsReadyAndSaysNothing) {
  const Model model = load(copy_.write());
  EXPECT_EQ(model.mtp_head.state, HeadState::kReady);
  EXPECT_EQ(model.mtp_head.sentence, "");
  const Outputs outputs = run(model);
  EXPECT_EQ(outputs.target, original_.target);
  EXPECT_EQ(outputs.head, original_.head);
}

TEST_F(HeadDoctorTest, AConfigWithoutAHeadHasNone) {
  copy_.edit("\"mtp_num_hidden_layers\": 1", "\"mtp_num_hidden_layers\": 0");
  copy_.erase_prefix("mtp.");
  expect_unusable(copy_, HeadState::kNone, {"names none"});
}

TEST_F(HeadDoctorTest, AHeadThatTheConversionDroppedIsMissing) {
  copy_.erase_prefix("mtp.");
  expect_unusable(copy_, HeadState::kMissing,
                  {"missing", "1 layer", "mtp.safetensors", copy_.folder().path()});
}

TEST_F(HeadDoctorTest, AHeadWithoutOneOfItsTensorsIsIncomplete) {
  for (const char* name : {"mtp.fc.weight", "mtp.layers.0.mlp.up_proj.weight",
                           "mtp.layers.0.self_attn.q_norm.weight", "mtp.norm.weight"}) {
    CopiedModel copy(test::kOddModel);
    ASSERT_EQ(copy.tensors.erase(name), 1U);
    const std::string bare = std::string(name).substr(0, std::string(name).rfind('.'));
    expect_unusable(copy, HeadState::kIncomplete,
                    {"incomplete", bare, "1 tensors absent", "model.safetensors"});
  }
}

TEST_F(HeadDoctorTest, AMatrixOfZerosIsFound) {
  for (const char* name : {"mtp.fc", "mtp.layers.0.mlp.down_proj", "mtp.layers.0.self_attn.q_proj"}) {
    CopiedModel copy(test::kOddModel);
    std::string& data = copy.tensors.at(std::string(name) + ".weight").data;
    data.assign(data.size(), '\0');
    expect_unusable(copy, HeadState::kZeroed, {"zeroed", name, "model.safetensors"});
    data.back() = 1;  // one value that is small but not zero
    EXPECT_EQ(load(copy.write()).mtp_head.state, HeadState::kReady);
  }
}

TEST_F(HeadDoctorTest, AMatrixOfAnotherShapeIsNamed) {
  CopiedModel::Tensor& fc = copy_.tensors.at("mtp.fc.weight");
  fc.shape = {kWidth * 2, kWidth};
  expect_unusable(copy_, HeadState::kWrongShape, {"wrong shape", "mtp.fc.weight", "[96,192]", "[192,96]"});
}

TEST_F(HeadDoctorTest, ANormOfAnotherSizeIsNamed) {
  CopiedModel::Tensor& norm = copy_.tensors.at("mtp.layers.0.self_attn.k_norm.weight");
  norm.data.resize(norm.data.size() / 2);
  norm.shape = {16};
  expect_unusable(copy_, HeadState::kWrongShape, {"k_norm", "[32]", "[16]"});
}

bool is_norm(const std::string& name) {
  return name.ends_with("norm.weight") && !name.ends_with("linear_attn.norm.weight");
}

/// The copy in MLX's conventions: other names, convolutions [C, K, 1], norms around one.
void turn_into_mlx(CopiedModel& copy, bool shift_head) {
  std::map<std::string, CopiedModel::Tensor> renamed;
  for (auto& [name, tensor] : copy.tensors) {
    const bool head = name.starts_with("mtp.");
    if (is_norm(name) || name.find("_fc_norm_") != std::string::npos) {
      const CopiedModel::Tensor raw = tensor;
      copy.to_float(name, !head || shift_head ? 1.0F : 0.0F);
    }
    if (name.ends_with("conv1d.weight")) std::swap(tensor.shape[1], tensor.shape[2]);
    std::string other = name;
    constexpr std::string_view kPrefix = "model.language_model.";
    if (name.starts_with(kPrefix)) other = "language_model.model." + name.substr(kPrefix.size());
    if (name.starts_with("lm_head.")) other = "language_model." + name;
    renamed[other] = tensor;
  }
  copy.tensors = std::move(renamed);
  copy.metadata = R"({"format":"mlx"})";
}

TEST_F(HeadDoctorTest, MlxNamesAndNormsGiveTheBitsOfHuggingFaceNamesAndNorms) {
  turn_into_mlx(copy_, true);
  const Model model = load(copy_.write());
  EXPECT_EQ(model.mtp_head.state, HeadState::kReady) << model.mtp_head.sentence;
  const Outputs outputs = run(model);
  EXPECT_EQ(outputs.target, original_.target);
  EXPECT_EQ(outputs.head, original_.head);
}

TEST_F(HeadDoctorTest, RawNormsWhereFinalOnesAreDeclaredAreMended) {
  turn_into_mlx(copy_, false);
  const Model model = load(copy_.write());
  EXPECT_EQ(model.mtp_head.state, HeadState::kRepaired) << model.mtp_head.sentence;
  EXPECT_NE(model.mtp_head.sentence.find("raw norms"), std::string::npos) << model.mtp_head.sentence;
  EXPECT_EQ(model.mtp_head.sentence.find('\n'), std::string::npos);
  ASSERT_TRUE(model.mtp.has_value());
  const Outputs outputs = run(model);
  EXPECT_EQ(outputs.target, original_.target);
  EXPECT_EQ(outputs.head, original_.head) << "repaired means that it drafts like the original";
}

TEST_F(HeadDoctorTest, TheOrderOfTheHeadsInputsIsThatOfTheConfig) {
  copy_.edit("{", R"({"mtplx_mtp_contract": {"concat_order": "hidden_embedding"},)");
  const Result<Model> model = load_model(copy_.write());
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_NE(run(*model).head, original_.head);
}

}  // namespace
}  // namespace ft::head_doctor_test
