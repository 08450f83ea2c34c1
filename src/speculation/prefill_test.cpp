// Several prompts in one step, with a small random model on the reference backend.
#include <gtest/gtest.h>

#include "tests/toy_decoder.h"

namespace ft::test::prefill_test {
namespace {

using Tokens = std::vector<std::int32_t>;

Tokens counted(int count, int step) {
  Tokens tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(i * step % 101);
  return tokens;
}

SlotOptions sampled() {
  SlotOptions options;
  options.sampler.temperature = 0.9F, options.sampler.seed = 3;
  options.max_tokens = 30, options.depth = 2;
  return options;
}

const Tokens kPrompts[] = {counted(1, 3), counted(12, 5), counted(40, 7)};

TEST(PromptsTogether, GiveTheTokensOfPromptsReadAlone) {
  for (const DrafterKind kind : {DrafterKind::kNone, DrafterKind::kMtp}) {
    ToyDecoder alone(1), together(3);
    std::vector<std::unique_ptr<Slot>> slots;
    std::vector<Slot*> all;
    for (const Tokens& prompt : kPrompts) {
      slots.push_back(std::move(*together->open(prompt, sampled(), kind)));
      all.push_back(slots.back().get());
    }
    ASSERT_TRUE(together->prefill_together(all).ok());
    for (std::size_t i = 0; i < all.size(); ++i) {
      ASSERT_TRUE(all[i]->prefilled());
      together.finish(*all[i]);
      const auto expected = alone.open(kPrompts[i], sampled(), kind);
      alone.finish(*expected);
      EXPECT_EQ(ToyDecoder::output(*all[i]), ToyDecoder::output(*expected)) << i;
      EXPECT_EQ(all[i]->report.accepted_at, expected->report.accepted_at) << i;
      alone->close(*expected);
    }
    ASSERT_TRUE(together->prefill_together(all).ok()) << "nothing is left";
    for (Slot* slot : all) together->close(*slot);
  }
}

TEST(PromptsTogether, ShowEachRowOfThoseThatWantIt) {
  ToyDecoder decoder(3);
  const auto rows_of = [&](bool apart) {
    std::vector<std::vector<float>> rows;
    std::vector<std::unique_ptr<Slot>> slots;
    std::vector<Slot*> all;
    for (const Tokens& prompt : {counted(5, 3), counted(9, 5), counted(7, 7)}) {
      slots.push_back(std::move(*decoder->open(prompt, sampled(), DrafterKind::kNone)));
      if (all.size() != 1) {
        slots.back()->on_prompt_row = [&](std::int64_t row, std::span<const float> logits) {
          rows.emplace_back(logits.begin(), logits.end());
          rows.back().push_back(static_cast<float>(row));
        };
      }
      all.push_back(slots.back().get());
    }
    if (!apart) {
      EXPECT_TRUE(decoder->prefill_together(all).ok());
    }
    for (Slot* slot : all) {
      while (!slot->prefilled()) EXPECT_TRUE(decoder->prefill(*slot, 64).ok());
    }
    for (Slot* slot : all) decoder->close(*slot);
    return rows;
  };
  const auto rows = rows_of(false);
  EXPECT_EQ(rows.size(), 4U + 6U);
  EXPECT_EQ(rows, rows_of(true));
}

TEST(PromptsTogether, AreNotReadWhereOneDoesNotFit) {
  const ToyModel toy;
  const auto backend = make_ref_backend();
  const auto target = std::move(*backend->compile(toy.target, {128, 32}));
  const StateOptions memory{2, 2};  // blocks
  const auto state = std::move(*backend->make_state(toy.target.layout(), memory));
  TimelinePool pool(*state, memory);
  Round round(*target, *state, 2);
  Slot slots[2];
  Slot* all[] = {&slots[0], &slots[1]};
  for (int i = 0; i < 2; ++i) {
    slots[i].id = i;
    slots[i].tokens = i == 0 ? counted(10, 3) : counted(100, 3);
    slots[i].timeline = std::move(*Timeline::open(pool));
  }
  EXPECT_EQ(round.prefill_together(all).error().code, Code::kExhausted);
  for (const Slot& slot : slots) EXPECT_EQ(slot.timeline->length(), 0);
  const Status alone = round.prefill(slots[0], 16);
  EXPECT_TRUE(alone.ok()) << alone.error().message;
  EXPECT_TRUE(slots[0].prefilled());
}

}  // namespace
}  // namespace ft::test::prefill_test
