// The EAGLE-3 drafters of gemma4-tiny and, in the original layout, of SmolLM2: their chained drafts in
// float32, and the tokens of their rounds. The trained pairs are not in the repository: FORETOKEN_TRAINED
// names their folder, and FORETOKEN_SMOLLM2 the SmolLM2 model. Without them these tests are skipped. Random
// heads for gpt-oss are in the repository (tools/make_odd_eagle3.py).
#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "backends/registry.h"
#include "tests/golden_files.h"

namespace ft::test::eagle3_golden_test {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

class Eagle3Golden : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const char* trained = std::getenv("FORETOKEN_TRAINED");
    if (trained == nullptr) GTEST_SKIP() << "FORETOKEN_TRAINED names no folder";
    golden_ = fs::path(trained) / "gemma4-tiny" / "golden";
    load((fs::path(trained) / "gemma4-tiny").string(), (fs::path(trained) / "gemma4-tiny-eagle3").string());
  }

  void load(const std::string& target, const std::string& drafter) {
    decoder_.reset();
    LoadOptions options;
    options.drafters = {{"eagle3", drafter}};
    Result<Model> model = load_model(target, options);
    ASSERT_TRUE(model.ok()) << model.error().message;
    model_ = std::move(*model);
    Result<std::unique_ptr<Backend>> backend = make_backend({.name = GetParam(), .threads = 1});
    if (GetParam() == std::string_view("cuda") && !backend.ok()) GTEST_SKIP() << backend.error().message;
    backend_ = std::move(*backend);
    DecoderOptions decoding;
    decoding.context = 2048;
    Result<std::unique_ptr<Decoder>> decoder = Decoder::make(*backend_, model_, decoding);
    ASSERT_TRUE(decoder.ok()) << decoder.error().message;
    decoder_ = std::move(*decoder);
  }

  bool exact() const { return GetParam() == std::string_view("ref"); }
  /// Of the reference over its second choice: with a larger one the draft must be equal. Our scale of the
  /// embedding is rounded to bf16 and the reference's is not, so even ref differs a little.
  virtual double margin() const { return exact() ? 0.25 : 0.5; }

  void expect_chain(const Json& item, std::span<const std::int32_t> drafts) {
    for (std::size_t i = 0; i < drafts.size(); ++i) {
      const Json& top = item["top5"][i];
      if (top[0][1].get<double>() - top[1][1].get<double>() <= margin()) return;  // later drafts may differ
      EXPECT_EQ(drafts[i], item["drafts"][i].get<std::int32_t>())
          << "pending " << item["pending_index"] << " draft " << i;
      ++compared_;
    }
  }

  /// Drafts at the positions of `chains`, after the prompt and its continuation.
  void expect_chains(const Json& golden, const Json& chains) {
    auto tokens = golden["tokens"].get<std::vector<std::int32_t>>();
    const auto greedy = golden["greedy"]["tokens"].get<std::vector<std::int32_t>>();
    tokens.insert(tokens.end(), greedy.begin(), greedy.end());
    SlotOptions options;
    options.max_tokens = 1;
    const auto slot = std::move(*decoder_->open(tokens, options, DrafterKind::kEagle3));
    for (const Json& item : chains) {
      const auto pending = item["pending_index"].get<std::int64_t>();
      ASSERT_EQ(tokens[static_cast<std::size_t>(pending)], item["pending_token"].get<std::int32_t>());
      const std::vector<std::int32_t> drafts =
          drafts_after(*decoder_, *slot, tokens, pending, static_cast<int>(item["drafts"].size()));
      expect_chain(item, drafts);
    }
    decoder_->close(*slot);
  }

  /// Tokens per round over the greedy answers to the golden chat prompts.
  double tokens_per_round(int depth) {
    std::int64_t tokens = 0, rounds = 0;
    for (const char* name : {"chat_fibonacci", "chat_think", "multi_turn", "tool_weather"}) {
      const Json golden = read_json(golden_ / (std::string(name) + ".json"));
      SlotOptions options;
      options.max_tokens = 64, options.depth = depth;
      options.eos.assign(model_.facts.eos_ids.begin(), model_.facts.eos_ids.end());
      auto slot = std::move(
          *decoder_->open(golden["tokens"].get<std::vector<std::int32_t>>(), options, DrafterKind::kEagle3));
      while (slot->timeline->length() + 1 < static_cast<std::int64_t>(slot->tokens.size()))
        EXPECT_TRUE(decoder_->prefill(*slot, 64).ok());
      Slot* one = slot.get();
      while (slot->finish == Finish::kNone) decoder_->round({&one, 1});
      tokens += slot->report.emitted, rounds += slot->report.rounds;
      const auto greedy = golden["greedy"]["tokens"].get<std::vector<std::int32_t>>();
      const std::size_t same = std::min<std::size_t>(20, static_cast<std::size_t>(slot->output_tokens()));
      for (std::size_t i = 0; i < same; ++i)
        EXPECT_EQ(slot->tokens[static_cast<std::size_t>(slot->prompt_tokens) + i], greedy[i])
            << name << " " << i;
      decoder_->close(*slot);
    }
    return static_cast<double>(tokens) / static_cast<double>(rounds);
  }

  fs::path golden_;
  Model model_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Decoder> decoder_;
  int compared_ = 0;
};

TEST_P(Eagle3Golden, ChainedDraftsAreThoseOfTheReference) {
  for (const char* name : {"chat_fibonacci", "chat_think", "code_matrix", "code_settings", "multi_turn",
                           "short", "tool_weather", "long_docs"}) {
    SCOPED_TRACE(name);
    const Json golden = read_json(golden_ / (std::string(name) + ".json"));
    if (exact() && golden["tokens"].size() > 150) continue;  // ref is slow
    expect_chains(golden, golden["eagle3"]);
  }
  EXPECT_GT(compared_, 100);
}

TEST_P(Eagle3Golden, DeeperChainsGiveMoreTokensARound) {
  if (exact()) GTEST_SKIP() << "ref is slow";
  double before = 1;
  // transformers and the drafter in float32 on these prompts, counted as here: 154 tokens in 79, 54, 42, 34
  // and 30 rounds. The README of the drafter has 1.967 to 5.320 for forty other prompts. In four answers of
  // at most 64 tokens the last round, which ends early, is a large part.
  constexpr double kReference[] = {154.0 / 79, 154.0 / 54, 154.0 / 42, 154.0 / 34, 154.0 / 30};
  for (const int depth : {1, 2, 3, 4, 5}) {
    const double tokens = tokens_per_round(depth);
    RecordProperty("depth_" + std::to_string(depth), std::to_string(tokens));
    const double reference = kReference[depth - 1];
    EXPECT_NEAR(tokens, reference, 0.03 * reference) << "depth " << depth;
    EXPECT_GT(tokens, before + 0.5) << "depth " << depth;
    before = tokens;
  }
}

/// SmolLM2-135M-Instruct with its drafter.
class Eagle3Llama : public Eagle3Golden {
 protected:
  void SetUp() override {
    const char* trained = std::getenv("FORETOKEN_TRAINED");
    const char* smollm2 = std::getenv("FORETOKEN_SMOLLM2");
    if (trained == nullptr || smollm2 == nullptr) GTEST_SKIP() << "FORETOKEN_SMOLLM2 names no model";
    golden_ = "tests/golden/smollm2";
    drafts_ = fs::path(trained) / "smollm2-135m-eagle3" / "golden";
    load(smollm2, (fs::path(trained) / "smollm2-135m-eagle3").string());
  }
  fs::path drafts_;
};

TEST_P(Eagle3Llama, ChainedDraftsAreThoseOfTheReference) {
  for (const char* name : {"chat_sky", "code_settings", "multi_turn", "short", "unicode", "long_notes"}) {
    SCOPED_TRACE(name);
    const Json golden = read_json(golden_ / (std::string(name) + ".json"));
    if (exact() && golden["tokens"].size() > 150) continue;  // ref is slow
    expect_chains(golden, read_json(drafts_ / (std::string(name) + ".json"))["eagle3"]);
  }
  EXPECT_GT(compared_, 60);
}

/// The layouts of the published heads of gpt-oss.
class Eagle3GptOss : public Eagle3Golden {
 protected:
  void SetUp() override { golden_ = "tests/golden"; }
  double margin() const override { return exact() ? 0.005 : 0.5; }
};

TEST_P(Eagle3GptOss, ChainedDraftsAreThoseOfTheReference) {
  for (const char* head : {"flat", "speculators", "late"}) {
    SCOPED_TRACE(head);
    const Json chains = read_json(golden_ / "eagle3" / head / "golden.json");
    load((golden_ / "gpt_oss" / "plain").string(), (golden_ / "eagle3" / head).string());
    if (decoder_ == nullptr) return;  // no such device
    compared_ = 0;
    expect_chains(read_json(golden_ / "gpt_oss" / "plain" / "golden" / "plain_67.json"), chains["eagle3"]);
    EXPECT_GT(compared_, exact() ? 60 : 15);
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, Eagle3GptOss, testing::Values("ref", "cpu", "cuda"),
                         [](const auto& param) { return std::string(param.param); });
INSTANTIATE_TEST_SUITE_P(Backends, Eagle3Llama, testing::Values("ref", "cpu", "cuda"),
                         [](const auto& param) { return std::string(param.param); });
INSTANTIATE_TEST_SUITE_P(Backends, Eagle3Golden, testing::Values("ref", "cpu", "cuda"),
                         [](const auto& param) { return std::string(param.param); });

}  // namespace
}  // namespace ft::test::eagle3_golden_test
