// Drafters in separate folders against the figures that were made with them. The trained pairs are not in
// the repository: FORETOKEN_TRAINED names their folder. Without it these tests are skipped.
#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "backends/registry.h"
#include "tests/golden_files.h"

namespace ft::test::draft_golden_test {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

struct Case {
  const char* backend;
  double margin;  // of the reference over its second choice; with a larger margin the draft must be equal
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
    Result<std::unique_ptr<Backend>> backend = make_backend({.name = GetParam().backend, .threads = 1});
    if (GetParam().backend == std::string_view("cuda") && !backend.ok())
      GTEST_SKIP() << backend.error().message;
    backend_ = std::move(*backend);
    DecoderOptions decoding;
    decoding.context = 1024;
    Result<std::unique_ptr<Decoder>> decoder = Decoder::make(*backend_, model_, decoding);
    ASSERT_TRUE(decoder.ok()) << decoder.error().message;
    decoder_ = std::move(*decoder);
  }

  /// Tokens per round over the greedy answers to the golden chat prompts.
  double tokens_per_round(int depth) {
    std::int64_t tokens = 0, rounds = 0;
    for (const char* name : {"chat_fibonacci", "chat_think", "multi_turn", "tool_weather"}) {
      const Json golden = read_json(target_ / "golden" / (std::string(name) + ".json"));
      SlotOptions options;
      options.max_tokens = 64, options.depth = depth;
      options.eos.assign(model_.facts.eos_ids.begin(), model_.facts.eos_ids.end());
      auto slot = std::move(
          *decoder_->open(golden["tokens"].get<std::vector<std::int32_t>>(), options, DrafterKind::kDflash));
      while (!slot->prefilled()) EXPECT_TRUE(decoder_->prefill(*slot, 64).ok());
      Slot* one = slot.get();
      while (slot->finish == Finish::kNone) decoder_->round({&one, 1});
      tokens += slot->report.emitted, rounds += slot->report.rounds;
      decoder_->close(*slot);
    }
    return static_cast<double>(tokens) / static_cast<double>(rounds);
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

/// PyTorch in float32, which gives the golden blocks, takes 68, 41 and 30 rounds for these 217 tokens where
/// a block has as many masks as drafts (59, 37 and 27 with the first drafts of whole blocks: decision 021).
/// The README of the drafter has 3.535, 5.544 and 7.004 for forty other prompts.
TEST_P(DflashGolden, LargerBlocksGiveMoreTokensARound) {
  if (GetParam().backend == std::string_view("ref")) GTEST_SKIP() << "ref is slow";
  constexpr std::pair<int, double> kReference[] = {{4, 217.0 / 68}, {8, 217.0 / 41}, {16, 217.0 / 30}};
  for (const auto& [block, reference] : kReference) {
    const double tokens = tokens_per_round(block - 1);
    RecordProperty("block_" + std::to_string(block), std::to_string(tokens));
    EXPECT_NEAR(tokens, reference, 0.03 * reference) << "block " << block;
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, DflashGolden,
                         testing::Values(Case{"ref", 4e-3}, Case{"cpu", 0.1}, Case{"cuda", 0.1}),
                         [](const auto& param) { return std::string(param.param.backend); });

}  // namespace
}  // namespace ft::test::draft_golden_test
