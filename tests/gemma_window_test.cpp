// Gemma 4 whose keys outside its windows are released, against steps that keep all keys, on the random models
// of tests/golden/gemma4. On `ref` a released key is NaN.
#include <algorithm>
#include <gtest/gtest.h>

#include "backends/registry.h"
#include "backends/test_timeline.h"
#include "models/model.h"
#include "speculation/decoder.h"
#include "tests/bytes_in_memory.h"

namespace ft::test::gemma_window_test {
namespace {

using Tokens = std::vector<std::int32_t>;
constexpr int kPrompt = 150, kAnswer = 60;

struct Case {
  const char *backend, *model;
};

class GemmaWindow : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    model_ = std::move(*load_model(std::string("tests/golden/gemma4/") + GetParam().model));
    backend_ = std::move(*make_backend({.name = GetParam().backend, .threads = 1}));
    DecoderOptions options;
    options.slots = 2, options.context = 512, options.prefill_chunk = 64, options.cache_bytes = 8 << 20;
    decoder_ = std::move(*Decoder::make(*backend_, model_, options));
    for (int i = 0; i < kPrompt; ++i) prompt_.push_back(i < kPrompt / 2 ? i * 37 % 500 : prompt_[i - 60]);
  }

  /// The choice of a row after each token, with all keys kept.
  Tokens choices(const Tokens& tokens) {
    const auto network =
        std::move(*backend_->compile(model_.target, {.max_rows = 256, .max_logit_rows = 256}));
    const auto state = std::move(*backend_->make_state(model_.target.layout(), {.slots = 1, .blocks = 8}));
    TestTimeline timeline(*network, *state, {0, 1, 2, 3, 4, 5, 6, 7}, 0);
    std::vector<float> logits = timeline.step(tokens, static_cast<int>(tokens.size()));
    const auto vocabulary = static_cast<std::ptrdiff_t>(network->vocabulary());
    Tokens chosen;
    for (auto row = logits.begin(); row != logits.end(); row += vocabulary) {
      for (const int never : model_.facts.suppressed_ids) row[never] = -1e9F;
      chosen.push_back(static_cast<std::int32_t>(std::max_element(row, row + vocabulary) - row));
    }
    return chosen;
  }

  std::unique_ptr<Slot> open(int chunk, int depth, const PrefixHit& hit = {}) {
    SlotOptions options;
    options.max_tokens = kAnswer, options.depth = depth;
    auto slot = std::move(*decoder_->open(prompt_, options, DrafterKind::kLookup, hit));
    while (!slot->prefilled()) EXPECT_TRUE(decoder_->prefill(*slot, chunk).ok());
    return slot;
  }

  void finish(Slot& slot) {
    Slot* one = &slot;
    while (slot.finish == Finish::kNone) decoder_->round({&one, 1});
  }

  void expect_all_seen(const Slot& slot) {
    ASSERT_EQ(slot.tokens.size(), static_cast<std::size_t>(kPrompt + kAnswer));
    const Tokens chosen = choices(slot.tokens);
    for (int i = kPrompt; i < kPrompt + kAnswer; ++i) {
      const auto at = static_cast<std::size_t>(i);
      EXPECT_EQ(slot.tokens[at], chosen[at - 1]) << i;
    }
  }

  Model model_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Decoder> decoder_;
  Tokens prompt_;
};

TEST_P(GemmaWindow, AnswersAreThoseOfRowsThatKeepEveryKey) {
  for (const auto& [chunk, depth] : {std::pair{64, 0}, {7, 3}, {33, 12}}) {
    const auto slot = open(chunk, depth);
    finish(*slot);
    expect_all_seen(*slot);
    EXPECT_LT(slot->timeline->window_blocks().size(), slot->timeline->blocks().size()) << "some are released";
    decoder_->close(*slot);
  }
}

TEST_P(GemmaWindow, ForksAndSnapshotsContinueWithTheSameTokens) {
  const int blocks = decoder_->pool().free_blocks();
  {
    const auto slot = open(64, 3);
    const Snapshot snapshot = std::move(*decoder_->snapshot(*slot));
    EXPECT_GT(snapshot.low(), 1);
    EXPECT_LE(snapshot.low(), snapshot.high() - kForkRoom);
    Written written;
    ASSERT_TRUE(snapshot.write_to(written));
    finish(*slot);  // it releases rows that the snapshot still sees
    Given given(written.bytes);
    const Snapshot again = std::move(*decoder_->snapshots().read(given));
    EXPECT_EQ(again.low(), snapshot.low());
    for (const Snapshot* from : {&snapshot, &again}) {
      for (const std::int64_t length : {from->low(), from->low() + 5, from->high()}) {
        const auto warm = open(16, 3, {from, length});
        finish(*warm);
        EXPECT_EQ(warm->tokens, slot->tokens) << length << (from == &again ? " of the bytes" : "");
        decoder_->close(*warm);
      }
    }
    expect_all_seen(*slot);
    decoder_->close(*slot);
  }
  EXPECT_EQ(decoder_->pool().free_blocks(), blocks) << "nothing is left";
}

TEST_P(GemmaWindow, AFileOfASequenceLeavesOutWhatIsReleased) {
  const auto slot = open(64, 0);
  const Snapshot snapshot = std::move(*decoder_->snapshot(*slot));
  Written written;
  ASSERT_TRUE(snapshot.write_to(written));
  const Limits limits = backend_->limits(model_.target.layout());
  const auto released =
      std::ssize(snapshot.timeline.blocks()) - std::ssize(snapshot.timeline.window_blocks());
  EXPECT_GT(released, 0);
  EXPECT_LE(std::ssize(written.bytes), std::ssize(snapshot.timeline.blocks()) * limits.block_bytes -
                                           released * limits.sliding_window_part.block_bytes + 64);
  decoder_->close(*slot);
}

INSTANTIATE_TEST_SUITE_P(Models, GemmaWindow,
                         testing::Values(Case{"ref", "odd"}, Case{"ref", "odd_e"}, Case{"ref", "odd_moe"},
                                         Case{"cpu", "odd"}, Case{"cpu", "odd_e"}),
                         [](const auto& param) {
                           return std::string(param.param.backend) + "_" + param.param.model;
                         });

}  // namespace
}  // namespace ft::test::gemma_window_test
