#include "cli/library/tier.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>

#include "models/family.h"

namespace ft::cli::tier_test {
namespace {

namespace fs = std::filesystem;

hub::ModelSummary shipped() { return hub::summarise_folder("assets/qwen3.5-tiny"); }

class Tiers : public testing::Test {
 protected:
  Tiers() {
    std::string name = (fs::temp_directory_path() / "foretoken-tier-XXXXXX").string();
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    folder = name;
    ::setenv("XDG_STATE_HOME", name.c_str(), 1);
  }
  ~Tiers() override {
    ::unsetenv("XDG_STATE_HOME");
    std::error_code ignored;
    fs::remove_all(folder, ignored);
  }
  fs::path folder;
};

TEST_F(Tiers, TheShippedModelIsCompatibleUntilItIsVerified) {
  const hub::ModelSummary summary = shipped();
  Assessment found = assess(summary, "", false);
  EXPECT_EQ(found.tier, Tier::kCompatible) << found.reason;
  EXPECT_EQ(found.drafted_by(), "MTP head");
  ASSERT_TRUE(remember_verified({"m", summary.identity, program_version(), "cpu", 3, 100, 0.5}).ok());
  found = assess(summary, "", false);
  EXPECT_EQ(found.tier, Tier::kVerified);
  EXPECT_EQ(found.verified->compared, 100);
}

TEST_F(Tiers, AnotherVersionsProofDoesNotCount) {
  const hub::ModelSummary summary = shipped();
  ASSERT_TRUE(remember_verified({"m", summary.identity, "0.0.0", "cpu", 3, 100, 0.5}).ok());
  EXPECT_EQ(assess(summary, "", false).tier, Tier::kCompatible);
  std::ofstream(folder / "foretoken/verified" / (summary.identity + ".json")) << "{";
  EXPECT_EQ(assess(summary, "", false).tier, Tier::kCompatible);
}

TEST_F(Tiers, WithoutAHeadLookupDrafts) {
  hub::ModelSummary summary = shipped();
  summary.head_file.clear();
  const Assessment found = assess(summary, "m", false);
  EXPECT_EQ(found.tier, Tier::kNoHead);
  EXPECT_EQ(found.drafted_by(), "n-gram lookup");
}

TEST_F(Tiers, AFamilyWithoutHeadsLacksNone) {
  int with = 0, without = 0;
  for (const Family* family : families()) (may_have_head(family->name) ? with : without) += 1;
  EXPECT_EQ(with, 3) << "qwen3_5, qwen3_next, glm4_moe";
  EXPECT_EQ(without, 3) << "llama, gemma4, gpt_oss";
  const hub::ModelSummary llama = hub::summarise_folder("tests/golden/llama/llama");
  const Assessment found = assess(llama, "m", false);
  EXPECT_EQ(found.tier, Tier::kCompatible) << found.reason;
  EXPECT_EQ(found.drafted_by(), "n-gram lookup");
  EXPECT_EQ(found.reason.find("head"), std::string::npos) << found.reason;
}

TEST_F(Tiers, DraftersNextToAModelAreNamed) {
  fs::copy("tests/golden/llama/llama", folder / "m", fs::copy_options::recursive);
  for (const char* drafter : {"eagle3", "dflash"}) {
    fs::create_directories(folder / "m" / drafter);
    std::ofstream(folder / "m" / drafter / "config.json") << "{}";
  }
  EXPECT_EQ(assess(hub::summarise_folder((folder / "m").string()), "m", false).drafted_by(),
            "EAGLE-3, DFlash");
}

TEST_F(Tiers, WhatDoesNotRunSaysWhy) {
  hub::ModelSummary summary = shipped();
  summary.problem = "model.safetensors is missing";
  EXPECT_EQ(assess(summary, "org/m", true).next, "foretoken pull org/m");
  summary.problem.clear();
  summary.foreign = true, summary.quantisation = "4-bit gptq";
  EXPECT_EQ(assess(summary, "m", false).tier, Tier::kConvertible);
  summary.config = R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]})",
  summary.model_type = "gpt2";
  const Assessment found = assess(summary, "m", false);
  EXPECT_EQ(found.tier, Tier::kIncompatible);
  EXPECT_NE(found.reason.find("GPT2LMHeadModel"), std::string::npos);
  EXPECT_FALSE(found.runs());
}

}  // namespace
}  // namespace ft::cli::tier_test
