// The metal backend on a device that runs nothing until a caller waits for it, as a GPU may: rounds whose
// drafts never leave it.
#include <gtest/gtest.h>

#include "backends/metal/backend.h"
#include "backends/metal/late_device.h"
#include "models/model.h"
#include "tests/full_run.h"
#include "tests/toy_decoder.h"
#include "verify/matrix.h"

namespace ft::metal_late_test {
namespace {

using metal::Late;

std::unique_ptr<Backend> on(const std::shared_ptr<Late>& device) {
  return std::move(metal::make_backend_on(device, 16).value());
}

TEST(MetalLateMatrix, DraftsThatStayOnTheGpuChangeNoToken) {
  if (!test::full_run()) GTEST_SKIP() << "FORETOKEN_FULL=1 runs it";
  const Result<Model> model = load_model("tests/golden/odd");
  ASSERT_TRUE(model.ok()) << model.error().message;
  std::vector<MatrixPrompt> prompts(1);
  for (int i = 0; i < 23; ++i) prompts[0].ids.push_back(i * i % model->facts.vocabulary);
  prompts[0].name = "squares";
  MatrixOptions options;
  options.backend.name = "metal-twin";
  options.tokens = 12, options.threads = {1}, options.part = 1, options.parts = 6;
  const auto late = std::make_shared<Late>();
  options.around = [&late](std::unique_ptr<Backend>) { return on(late); };
  const Result<MatrixReport> report = run_matrix(*model, prompts, options);
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_TRUE(report->complete);
  EXPECT_GT(report->compared, 200);
  for (const CellResult& cell : report->cells) EXPECT_EQ(cell.differing, 0) << cell.cell.text();
  EXPECT_GT(late->submitted, 300);
}

/// Waits for the device in the rounds of one answer beyond one for each round.
int more_waits(test::ToyDecoder& decoder, const Late& late, const SlotOptions& options, DrafterKind kind) {
  std::vector<std::int32_t> prompt;
  for (int i = 0; i < 20; ++i) prompt.push_back(i * i % 100);
  const std::vector<std::int32_t> plain = decoder.answer(prompt, options);
  const auto slot = decoder.open(prompt, options, kind);
  const int before = late.whole_waits;
  decoder.finish(*slot);
  EXPECT_EQ(test::ToyDecoder::output(*slot), plain) << kind.name();
  EXPECT_GT(slot->report.drafted, slot->report.rounds * (options.depth - 1)) << kind.name();
  const int more = late.whole_waits - before - static_cast<int>(slot->report.rounds);
  decoder->close(*slot);
  return more;
}

/// For any number of drafts, greedy or sampled. A drafting model copies its timeline, which also waits.
TEST(MetalLateMatrix, ARoundOfDraftsWaitsForItsTargetAlone) {
  if (!test::full_run()) GTEST_SKIP() << "FORETOKEN_FULL=1 runs it";
  const auto late = std::make_shared<Late>();
  test::ToyOptions toy;
  toy.folders = true;
  test::ToyDecoder decoder(on(late), 1, toy);
  for (const float temperature : {0.0F, 0.8F}) {
    for (const int depth : {1, 2, 5}) {
      SlotOptions options;
      options.max_tokens = 16, options.depth = depth;
      options.sampler.temperature = temperature, options.sampler.top_k = 20;
      for (const DrafterKind kind : {DrafterKind::kMtp, DrafterKind::kEagle3, DrafterKind::kDflash})
        EXPECT_EQ(more_waits(decoder, *late, options, kind), 0) << kind.name() << " depth " << depth;
      EXPECT_LE(more_waits(decoder, *late, options, DrafterKind::kModel), depth == 1 ? 0 : 16);
      options.sampler.repetition = 1.1F;
      EXPECT_GT(more_waits(decoder, *late, options, DrafterKind::kMtp), 0) << "penalties are the host's";
    }
  }
}

}  // namespace
}  // namespace ft::metal_late_test
