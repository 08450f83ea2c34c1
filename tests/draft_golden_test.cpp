// Drafters with a folder of their own against the figures that were made with them. The trained pairs are not
// in the repository: FORETOKEN_TRAINED names the folder that holds them, without it these tests are skipped.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "backends/registry.h"
#include "tests/golden_files.h"

namespace ft::test {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

Json read_json(const fs::path& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file.good()) << path;
  return Json::parse(file);
}

struct Case {
  const char* backend;
  double margin;  // of the reference over its second choice, from which a draft must agree
};

class DflashGolden : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    const char* trained = std::getenv("FORETOKEN_TRAINED");
    if (trained == nullptr) GTEST_SKIP() << "FORETOKEN_TRAINED names no folder";
    target_ = fs::path(trained) / "qwen3.5-tiny";
    const fs::path drafter = fs::path(trained) / "qwen3.5-tiny-dflash";
    golden_ = read_json(drafter / "golden" / "blocks.json");
    LoadOptions options;
    options.drafters = {{"dflash", drafter.string()}};
    Result<Model> model = load_model(target_.string(), options);
    ASSERT_TRUE(model.ok()) << model.error().message;
    model_ = std::move(*model);
    Result<std::unique_ptr<Backend>> backend = make_backend({.name = GetParam().backend, .threads = 2});
    if (GetParam().backend == std::string_view("cuda") && !backend.ok())
      GTEST_SKIP() << backend.error().message;
    backend_ = std::move(*backend);
    DecoderOptions decoding;
    decoding.context = 1024;
    Result<std::unique_ptr<Decoder>> decoder = Decoder::make(*backend_, model_, decoding);
    ASSERT_TRUE(decoder.ok()) << decoder.error().message;
    decoder_ = std::move(*decoder);
  }

  void expect_block(const Json& block, std::span<const std::int32_t> drafts) {
    for (std::size_t i = 0; i < drafts.size(); ++i) {
      if (block["margin"][i].get<double>() < GetParam().margin) continue;
      EXPECT_EQ(drafts[i], block["drafted"][i].get<std::int32_t>()) << "draft " << i;
      ++compared_;
    }
  }

  fs::path target_;
  Json golden_;
  Model model_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Decoder> decoder_;
  int compared_ = 0;
};

TEST_P(DflashGolden, BlocksAreThoseOfTheReference) {
  for (const Json& prompt : golden_["blocks"]) {
    SCOPED_TRACE(prompt["prompt"].get<std::string>());
    const Json text = read_json(target_ / "golden" / (prompt["prompt"].get<std::string>() + ".json"));
    auto tokens = text["tokens"].get<std::vector<std::int32_t>>();
    const auto greedy = text["greedy"]["tokens"].get<std::vector<std::int32_t>>();
    tokens.insert(tokens.end(), greedy.begin(), greedy.end());
    SlotOptions options;
    options.max_tokens = 1;
    const auto slot = std::move(*decoder_->open(tokens, options, DrafterKind::kDflash));
    for (const Json& block : prompt["blocks"]) {
      const auto pending = block["bonus_index"].get<std::int64_t>();
      ASSERT_EQ(tokens[static_cast<std::size_t>(pending)], block["bonus_token"].get<std::int32_t>());
      const std::vector<std::int32_t> drafts =
          drafts_after(*decoder_, *slot, tokens, pending, static_cast<int>(block["drafted"].size()));
      expect_block(block, drafts);
    }
    decoder_->close(*slot);
  }
  EXPECT_GT(compared_, 100);
}

INSTANTIATE_TEST_SUITE_P(Backends, DflashGolden,
                         testing::Values(Case{"ref", 4e-3}, Case{"cpu", 0.1}, Case{"cuda", 0.1}),
                         [](const auto& param) { return std::string(param.param.backend); });

}  // namespace
}  // namespace ft::test
