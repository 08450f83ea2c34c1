// The assistant of Gemma 4 against the published forward pass in float32, on two random pairs: `dense` with a
// whole head, `small` with shared layers, per-layer embeddings and logits by cluster. The goldens were made
// with transformers 5.24 (see the field "about" of drafts.json).
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "drafters/assistant.h"
#include "tests/copied_model.h"
#include "tests/golden_backends.h"
#include "tests/golden_files.h"

namespace ft::test::assistant_golden_test {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

struct Pair {
  const char* backend;
  const char* name;
};

std::vector<Pair> pairs() {
  std::vector<Pair> all;
  for (const char* backend : golden_backends())
    for (const char* name : {"dense", "small"}) all.push_back({backend, name});
  return all;
}

class AssistantGolden : public testing::TestWithParam<Pair> {
 protected:
  void SetUp() override {
    if (on_cuda(GetParam().backend))
      if (const std::string why = why_not(GetParam().backend); !why.empty()) GTEST_SKIP() << why;
    const fs::path folder = pair_folder();
    std::ifstream file(folder / "drafts.json");
    ASSERT_TRUE(file.good());
    golden_ = Json::parse(file);
    Json few = Json::array();  // a step of the emulator takes long
    for (const Json& one : golden_["cases"])
      if (!emulated() || one["committed"].get<int>() <= 12) few.push_back(one);
    golden_["cases"] = few;
    load(folder / "assistant");
  }

  static bool emulated() { return GetParam().backend == std::string_view("emulated"); }
  static fs::path pair_folder() { return fs::path("tests/golden/assistant") / GetParam().name; }

  void load(const fs::path& assistant) {
    const fs::path folder = pair_folder();
    decoder_.reset();
    LoadOptions options;
    options.drafters = {{"assistant", assistant.string()}};
    Result<Model> model = load_model((folder / "target").string(), options);
    ASSERT_TRUE(model.ok()) << model.error().message;
    model_ = std::move(*model);
    backend_ = backend_of(GetParam().backend);
    DecoderOptions decoding;
    decoding.slots = 2, decoding.context = 128;
    Result<std::unique_ptr<Decoder>> decoder = Decoder::make(*backend_, model_, decoding);
    ASSERT_TRUE(decoder.ok()) << decoder.error().message;
    decoder_ = std::move(*decoder);
  }

  static std::vector<std::int32_t> tokens_of(const Json& one) {
    auto tokens = one["text"].get<std::vector<std::int32_t>>();
    tokens.push_back(one["pending"].get<std::int32_t>());
    return tokens;
  }
  std::unique_ptr<Slot> open(const std::vector<std::int32_t>& tokens) {
    SlotOptions options;
    options.max_tokens = emulated() ? 6 : 20;
    return std::move(*decoder_->open(tokens, options, DrafterKind::kAssistant));
  }

  /// Compares drafts until the margin of the published logit is too small for this backend.
  void expect_drafts(const Json& one, std::span<const std::int32_t> drafts, const char* of = "drafts") {
    for (std::size_t i = 0; i < drafts.size(); ++i) {
      if (one["margin"][i].get<double>() < margin()) return;  // the chain may part here
      // A tie of clusters decides which tokens have logits, and the margin does not show that.
      const bool clustered = GetParam().name == std::string_view("small");
      if (clustered && drafts[i] != one[of][i].get<std::int32_t>() && parted_++ == 0) return;
      EXPECT_EQ(drafts[i], one[of][i].get<std::int32_t>()) << one["committed"] << " rows, draft " << i;
      ++compared_;
      if (one[of][i] != one["drafts"][i]) return;  // margins are those of the other chain
    }
  }
  /// The embedding's scale is rounded to bf16 in ours, so even ref differs a little.
  double margin() const { return exact() ? 0.03 : 0.3; }
  bool exact() const { return GetParam().backend == std::string_view("ref"); }

  Json golden_;
  Model model_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Decoder> decoder_;
  int compared_ = 0, parted_ = 0;
};

TEST_P(AssistantGolden, ChainsAreThoseOfThePublishedForwardPass) {
  for (const int depth : emulated() ? std::vector<int>{4} : std::vector<int>{1, 4, kMaxDraftTokens}) {
    for (const Json& one : golden_["cases"]) {
      const std::vector<std::int32_t> tokens = tokens_of(one);
      const auto slot = open(tokens);
      expect_drafts(one, drafts_after(*decoder_, *slot, tokens, one["committed"], depth));
      decoder_->close(*slot);
    }
  }
  EXPECT_GT(compared_, exact() ? 150 : emulated() ? 4 : 40);
}

/// `query_position` of the config: the rotary position of the queries is that of the last committed row.
TEST_P(AssistantGolden, ChainsWithQueriesAtTheLastRowAreThoseOfThatRule) {
  CopiedModel copy((pair_folder() / "assistant").string());
  copy.edit("{", "{\"query_position\": \"last\",");
  load(copy.write());
  const int depth = emulated() ? 4 : kMaxDraftTokens;
  int other = 0;
  for (const Json& one : golden_["cases"]) {
    const std::vector<std::int32_t> tokens = tokens_of(one);
    const auto slot = open(tokens);
    expect_drafts(one, drafts_after(*decoder_, *slot, tokens, one["committed"], depth),
                  "drafts_with_rope_of_last_row");
    other += one["drafts_with_rope_of_last_row"] != one["drafts"] ? 1 : 0;
    decoder_->close(*slot);
  }
  EXPECT_GT(compared_, exact() ? 30 : emulated() ? 2 : 10);
  EXPECT_GT(other, 0) << "the rules draft the same";
}

/// The drafts of the second round depend neither on the drafts of the first nor on how many were accepted.
TEST_P(AssistantGolden, RowsOfRejectedDraftsAreNotSeen) {
  const std::vector<std::int32_t> tokens = tokens_of(golden_["cases"].back());
  for (int round = emulated() ? 2 : 0; round < 3; ++round) {
    SlotOptions options;
    options.max_tokens = 40, options.depth = round == 0 ? 0 : 4 * round;
    const auto slot = std::move(*decoder_->open(tokens, options, DrafterKind::kAssistant));
    while (!slot->prefilled()) ASSERT_TRUE(decoder_->prefill(*slot, 9).ok());
    Slot* const only = slot.get();
    for (int i = 0; i < (emulated() ? 3 : 6); ++i) decoder_->round({&only, 1});
    ASSERT_TRUE(round == 0 || slot->report.drafted > slot->report.accepted) << "nothing was rejected";
    const std::vector<std::int32_t> text(slot->tokens.begin(), slot->tokens.end());
    const auto fresh = open(text);
    EXPECT_EQ(drafts_after(*decoder_, *slot, text, std::ssize(text) - 1, 8),
              drafts_after(*decoder_, *fresh, text, std::ssize(text) - 1, 8));
    decoder_->close(*slot), decoder_->close(*fresh);
  }
}

TEST_P(AssistantGolden, TheTargetsStateIsTheSameAfterADraft) {
  const std::vector<std::int32_t> tokens = tokens_of(golden_["cases"].back());
  const auto rows = std::ssize(tokens) - 1;
  const auto slot = open(tokens);
  drafts_after(*decoder_, *slot, tokens, rows - 2, kMaxDraftTokens);
  const auto untouched = open(tokens);
  while (untouched->timeline->length() < rows - 2)
    ASSERT_TRUE(
        decoder_->prefill(*untouched, static_cast<int>(rows - 2 - untouched->timeline->length())).ok());
  const auto after = [&](Slot& one) {
    drafts_after(*decoder_, one, tokens, rows, 1);  // the last rows
    Slot* const only = &one;
    while (one.finish == Finish::kNone) decoder_->round({&only, 1});
    return std::vector<std::int32_t>(one.tokens.begin(), one.tokens.end());
  };
  EXPECT_EQ(after(*slot), after(*untouched));
  decoder_->close(*slot), decoder_->close(*untouched);
}

INSTANTIATE_TEST_SUITE_P(Pairs, AssistantGolden, testing::ValuesIn(pairs()), [](const auto& which) {
  return name_of(which.param.backend) + "_" + which.param.name;
});

}  // namespace
}  // namespace ft::test::assistant_golden_test
