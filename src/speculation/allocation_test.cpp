// A round must not allocate.
#include <algorithm>
#include <gtest/gtest.h>
#include <iterator>

#include "backends/registry.h"
#include "tests/counted_allocations.h"
#include "tests/toy_decoder.h"

namespace ft::test::allocation_test {
namespace {

class Allocation : public testing::TestWithParam<const char*> {};

/// Depths that are chosen, penalties, tokens that were not seen before, several blocks of keys and values.
TEST_P(Allocation, ARoundAllocatesNothingAfterWarmUp) {
  const std::string_view design = GetParam();
  const bool walks = design == "dflash2" || design == "dspark";
  const DrafterKind kind = walks ? DrafterKind::kDflash : *DrafterKind::parse(design);
  constexpr int kWarmUp = 12, kRounds = 40;
  ToyOptions toy;
  constexpr DrafterKind kFolders[] = {DrafterKind::kEagle3, DrafterKind::kDflash, DrafterKind::kAssistant,
                                      DrafterKind::kModel};
  toy.folders = std::ranges::find(kFolders, kind) != std::end(kFolders);
  toy.walks = walks, toy.anchor = design == "dspark";
  ToyDecoder decoder(std::move(*make_backend({.name = "cpu", .threads = 1})), 2, toy, 1024);
  std::vector<std::unique_ptr<Slot>> slots;
  for (int i = 0; i < 2; ++i) {
    std::vector<std::int32_t> prompt;
    for (int t = 0; t < 45; ++t) prompt.push_back((t * (3 + i)) % 11);  // it repeats itself: lookup drafts
    SlotOptions options;
    options.max_tokens = 1000;
    options.depth = i == 0 ? 3 : -1;
    options.sampler.temperature = 1, options.sampler.presence = 0.1F;
    slots.push_back(decoder.open(prompt, options, kind));
  }
  std::vector<Slot*> running = {slots[0].get(), slots[1].get()};
  std::int64_t drafted = 0;
  for (int round = 0; round < kWarmUp + kRounds; ++round) {
    const long before = allocations.load();
    decoder->round(running);
    if (round >= kWarmUp) {
      EXPECT_EQ(allocations.load(), before) << "round " << round;
    }
    drafted = slots[0]->report.drafted;
    ASSERT_EQ(slots[0]->finish, Finish::kNone);
    ASSERT_EQ(slots[1]->finish, Finish::kNone);
  }
  EXPECT_EQ(drafted > 0, kind != DrafterKind::kNone);
  EXPECT_GT(allocations.load(), 0) << "the counter counts";
}

INSTANTIATE_TEST_SUITE_P(Drafters, Allocation,
                         testing::Values("none", "mtp", "lookup", "auto", "eagle3", "dflash", "dflash2",
                                         "dspark", "assistant", "model"),
                         [](const auto& param) { return std::string(param.param); });

}  // namespace
}  // namespace ft::test::allocation_test
