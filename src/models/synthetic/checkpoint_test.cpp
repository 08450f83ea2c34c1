#include "models/synthetic/checkpoint.h"

#include <filesystem>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/text_file.h"
#include "models/model.h"

namespace ft::checkpoint_test {
namespace {

namespace fs = std::filesystem;

class SynthCheckpoint : public ::testing::Test {
 protected:
  SynthCheckpoint()
      : folder_(fs::temp_directory_path() / ("foretoken_synth_" + std::to_string(::getpid()))) {}
  ~SynthCheckpoint() override { fs::remove_all(folder_); }
  SynthOptions options(const std::string& name, const char* width) const {
    SynthOptions synth;
    synth.shape = *find_shape("tiny");
    synth.shape.layers = 4;  // one period of layer kinds is enough
    EXPECT_TRUE(set_width(width, synth));
    synth.directory = (folder_ / name).string();
    return synth;
  }
  static std::string bytes(const SynthOptions& synth, const char* file) {
    return read_text_file(synth.directory + "/" + file, std::size_t{1} << 30).value();
  }
  fs::path folder_;
};

bool go_on(std::int64_t, std::int64_t) { return true; }

TEST_F(SynthCheckpoint, EveryWidthLoadsAsAModelWithAHead) {
  for (const char* width : kSynthWidths) {
    const SynthOptions synth = options(std::string("w") + width, width);
    const auto written = write_checkpoint(synth, go_on);
    ASSERT_TRUE(written.ok()) << written.error().message;
    const auto model = load_model(synth.directory);
    ASSERT_TRUE(model.ok()) << model.error().message;
    EXPECT_TRUE(model->mtp_head.usable()) << model->mtp_head.sentence;
    EXPECT_TRUE(model->facts.tied);
    EXPECT_EQ(model->facts.layers, 4);
  }
}

TEST_F(SynthCheckpoint, TheSeedAloneDecidesTheBytes) {
  const SynthOptions a = options("a", "4"), b = options("b", "4");
  SynthOptions c = options("c", "4");
  c.seed = 1;
  for (const SynthOptions* synth : {&a, &b, static_cast<const SynthOptions*>(&c)}) {
    ASSERT_TRUE(write_checkpoint(*synth, go_on).ok());
  }
  EXPECT_EQ(bytes(a, "model.safetensors"), bytes(b, "model.safetensors"));
  EXPECT_NE(bytes(a, "model.safetensors"), bytes(c, "model.safetensors"));
}

TEST_F(SynthCheckpoint, WithoutAHeadTheModelSaysSo) {
  SynthOptions synth = options("plain", "4");
  synth.mtp = false;
  ASSERT_TRUE(write_checkpoint(synth, go_on).ok());
  EXPECT_FALSE(fs::exists(fs::path(synth.directory) / "mtp.safetensors"));
  const auto model = load_model(synth.directory);
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_FALSE(model->mtp_head.usable());
}

TEST_F(SynthCheckpoint, StoppingLeavesNoModel) {
  const SynthOptions synth = options("stopped", "4");
  const auto written = write_checkpoint(synth, [](std::int64_t done, std::int64_t) { return done < 100000; });
  ASSERT_FALSE(written.ok());
  EXPECT_EQ(written.error().code, Code::kCancelled);
  EXPECT_TRUE(fs::is_empty(synth.directory));
}

TEST_F(SynthCheckpoint, AGroupThatDoesNotDivideARowIsRefused) {
  SynthOptions synth = options("group", "4");
  synth.group = 128;
  const auto written = write_checkpoint(synth, go_on);
  ASSERT_FALSE(written.ok());
  EXPECT_EQ(written.error().code, Code::kInvalid);
}

TEST(SynthShapes, The27BShapeHasAsManyTensorsAsTheOriginal) {
  const Shape shape = find_shape("qwen3.5-27b").value();
  EXPECT_EQ(target_tensors(shape).size(), 851U) << "850 of the target and lm_head";
  EXPECT_EQ(head_tensors(shape).size(), 15U);
  EXPECT_FALSE(find_shape("qwen3.5-3b").ok());
}

}  // namespace
}  // namespace ft::checkpoint_test
