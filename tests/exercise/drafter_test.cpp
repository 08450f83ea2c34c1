// The drafter of the exercise changes no token of any answer; some of its drafts are right and some wrong.
#include "tests/exercise/repeat_drafter.h"
#include "tests/late_backend.h"
#include "tests/toy_decoder.h"

namespace ft::test::drafter_test {
namespace {

TEST(Exercise, ADrafterOfThirtyLinesChangesNoToken) {
  LateReport report;
  for (const bool late : {false, true}) {
    ToyDecoder decoder(late ? make_late_backend(make_ref_backend(), report) : make_ref_backend(), 1);
    const std::unique_ptr<Drafter> repeat = std::move(*kRepeat.open({decoder->backend(), decoder->model()}));
    repeat->set_number(kMaxDrafters - 1);
    std::int64_t drafted = 0, accepted = 0;
    for (int depth = -1; depth <= kMaxDraftTokens; ++depth) {
      SlotOptions options;
      options.max_tokens = 40, options.depth = depth;
      options.sampler.temperature = depth % 2 == 0 ? 0.5F : 0;
      options.bias = {{7, 3.0F}};  // so that some tokens repeat
      const std::unique_ptr<Slot> slot = decoder.open({1, 2, 3, 3}, options, DrafterKind::kNone);
      ASSERT_TRUE(repeat->open(slot->id, slot->timeline->length()).ok());
      slot->drafter = repeat.get();
      decoder.finish(*slot);
      const std::vector<std::int32_t> tokens = ToyDecoder::output(*slot);
      drafted += slot->report.drafted, accepted += slot->report.accepted;
      decoder->close(*slot);
      options.depth = 0;
      EXPECT_EQ(tokens, decoder.answer({1, 2, 3, 3}, options)) << "depth " << depth;
    }
    EXPECT_GT(accepted, 0) << "nothing was accepted: the exercise proves nothing";
    EXPECT_GT(drafted, accepted);
  }
}

}  // namespace
}  // namespace ft::test::drafter_test
