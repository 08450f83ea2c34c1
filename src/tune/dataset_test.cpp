// Shards of the toy model: the same bytes for any number of streams, and after any stop.
#include "tune/dataset.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>

#include "base/text_file.h"
#include "format/half.h"
#include "format/model_fixture.h"
#include "tests/toy_decoder.h"

namespace ft::tune::dataset_test {
namespace {

using format::TemporaryFolder;
namespace fs = std::filesystem;

constexpr std::size_t kMaxBytes = std::size_t{1} << 24;
constexpr int kVocabulary = 101, kTop = 4;

test::ToyOptions toy() {
  test::ToyOptions options;
  options.folders = true;  // the target captures "eagle3"
  return options;
}

/// Prompts of several lengths; every third writes its own prompt first, every eleventh is left out.
Result<std::optional<Ask>> next(std::int64_t index, int stage, const Answered& last) {
  const bool own = index % 3 == 1;
  if (stage > (own ? 1 : 0) || index % 11 == 10) return std::optional<Ask>();
  Ask ask;
  ask.sampler.seed = static_cast<std::uint64_t>(2 * index + stage);
  ask.sampler.temperature = index % 2 == 0 ? 0.0F : 1.0F;
  ask.max_tokens = own && stage == 0 ? 4 : 20 + static_cast<int>(index % 7);
  for (std::int64_t i = 0; i < 3 + index % 5; ++i)
    ask.prompt.push_back(static_cast<std::int32_t>((index * 31 + i * 7) % kVocabulary));
  if (stage == 1) ask.prompt.assign(last.answer().begin(), last.answer().end());
  return std::optional(std::move(ask));
}

DatasetPlan plan_in(const TemporaryFolder& folder) {
  DatasetPlan plan;
  plan.folder = folder.file("shards");
  fs::create_directories(plan.folder);
  plan.shards = 2, plan.least_tokens = 8;
  plan.header = {"toy", "prompts", {-1, 0}, 2 * toy().hidden, kTop, 0};
  return plan;
}

Status write(const DatasetPlan& plan, int streams, int stop_after = 1 << 30) {
  test::ToyDecoder decoder(streams + 1, toy());
  Result<TextReader> reader = TextReader::make(*decoder, "eagle3", kTop);
  if (!reader.ok()) return reader.error();
  const Result<std::vector<std::int64_t>> missing = missing_shards(plan);
  if (!missing.ok()) return missing.error();
  return write_shards(*decoder, *reader, plan, *missing, {streams, {}}, next,
                      [&](const DatasetProgress& now) { return now.prompts >= stop_after; });
}

std::vector<std::string> bytes_of(const DatasetPlan& plan) {
  std::vector<std::string> all;
  for (std::int64_t i = 0; i < plan.shards; ++i)
    all.push_back(*read_binary_file(shard_path(plan, i), kMaxBytes));
  return all;
}

TEST(Dataset, AnyNumberOfStreamsWritesTheSameBytes) {
  std::vector<std::string> one;
  for (const int streams : {1, 2, 5}) {
    const TemporaryFolder folder;
    const DatasetPlan plan = plan_in(folder);
    const Status status = write(plan, streams);
    ASSERT_TRUE(status.ok()) << status.error().message;
    if (streams == 1) one = bytes_of(plan);
    EXPECT_EQ(bytes_of(plan), one) << streams;
  }
}

TEST(Dataset, WorkThatWasStoppedEndsWithTheSameBytes) {
  const TemporaryFolder whole_folder;
  const DatasetPlan whole = plan_in(whole_folder);
  ASSERT_TRUE(write(whole, 3).ok());
  for (const int after : {1, 20, 33, 50}) {
    const TemporaryFolder folder;
    const DatasetPlan plan = plan_in(folder);
    EXPECT_EQ(write(plan, 3, after).error().code, Code::kCancelled);
    ASSERT_TRUE(write(plan, 2).ok());
    EXPECT_EQ(bytes_of(plan), bytes_of(whole)) << after;
  }
}

TEST(Dataset, ADamagedShardIsWrittenAgainAndAnotherModelsIsRefused) {
  const TemporaryFolder folder;
  DatasetPlan plan = plan_in(folder);
  ASSERT_TRUE(write(plan, 2).ok());
  const std::vector<std::string> before = bytes_of(plan);
  std::ofstream(shard_path(plan, 1), std::ios::binary) << before[1].substr(0, before[1].size() / 2);
  const Result<std::vector<std::int64_t>> missing = missing_shards(plan);
  ASSERT_TRUE(missing.ok());
  EXPECT_EQ(*missing, (std::vector<std::int64_t>{1}));
  ASSERT_TRUE(write(plan, 2).ok());
  EXPECT_EQ(bytes_of(plan), before);
  plan.header.model = "another";
  EXPECT_EQ(missing_shards(plan).error().code, Code::kInvalid);
}

TEST(Dataset, ATextHasTheRowsAndSuccessorsOfItsTokens) {
  const TemporaryFolder folder;
  const DatasetPlan plan = plan_in(folder);
  ASSERT_TRUE(write(plan, 2).ok());
  const Result<std::vector<Document>> documents = read_shard(shard_path(plan, 0), shard_header(plan, 0));
  ASSERT_TRUE(documents.ok()) << documents.error().message;
  ASSERT_GT(documents->size(), 20U);
  int greedy = 0;
  for (const Document& document : *documents) {
    ASSERT_LT(document.prompt_tokens, static_cast<int>(document.tokens.size()));
    const auto first = static_cast<std::size_t>(document.prompt_tokens);
    bool likeliest = true;
    for (std::size_t i = first; i < document.tokens.size(); ++i)
      likeliest = likeliest && document.top_ids[(i - 1) * kTop] == document.tokens[i];
    greedy += likeliest ? 1 : 0;
    for (std::size_t i = 0; i + 1 < first; ++i) EXPECT_EQ(document.top_ids[i * kTop], -1);
    float sum = 0, before = 0;
    for (std::size_t j = 0; j < kTop; ++j) {
      const float logprob = format::f16_to_float(document.top_logprobs[(first - 1) * kTop + j]);
      EXPECT_LE(logprob, before);
      before = logprob, sum += std::exp(logprob);
    }
    EXPECT_LE(sum, 1.01F);
  }
  EXPECT_GE(greedy, 10) << "half of the answers are greedy";
}

TEST(Dataset, RowsDoNotDependOnTheChunksOfATextsReading) {
  test::ToyDecoder narrow(2, toy()), wide(20, toy());
  Result<TextReader> a = TextReader::make(*narrow, "eagle3", kTop);
  Result<TextReader> b = TextReader::make(*wide, "eagle3", kTop);
  ASSERT_TRUE(a.ok() && b.ok());
  std::vector<std::int32_t> tokens;
  for (int i = 0; i < 150; ++i) tokens.push_back(i * 37 % kVocabulary);
  const Result<Document> one = a->read(tokens, 10), other = b->read(tokens, 10);
  ASSERT_TRUE(one.ok() && other.ok());
  EXPECT_EQ(one->rows, other->rows);
  EXPECT_EQ(one->top_ids, other->top_ids);
  EXPECT_EQ(one->top_logprobs, other->top_logprobs);
}

TEST(Dataset, ATargetThatCapturesNothingIsRefused) {
  test::ToyDecoder decoder(2);
  const Result<TextReader> reader = TextReader::make(*decoder, "eagle3", kTop);
  ASSERT_FALSE(reader.ok());
  EXPECT_EQ(reader.error().code, Code::kUnsupported);
}

TEST(Dataset, ATextEndsWhereItRepeatsItself) {
  std::vector<std::int32_t> varied;
  for (int i = 0; i < 300; ++i) varied.push_back(i % 97);
  EXPECT_EQ(before_repetition(varied, 10), varied.size());
  std::vector<std::int32_t> repeats = varied;
  for (int i = 0; i < 200; ++i) repeats.push_back(i % 3);
  const std::size_t end = before_repetition(repeats, 10);
  EXPECT_GE(end, varied.size() - 16);
  EXPECT_LE(end, varied.size() + 48);
}

TEST(Dataset, ADrafterReadsLayersThatTheTargetHas) {
  for (int layers = 1; layers < 100; ++layers) {
    const CapturedLayers wanted{"tune", layers_to_capture(layers)};
    EXPECT_TRUE(check_layers(wanted, layers).ok()) << layers;
    EXPECT_NE(wanted.layers.front(), 0) << "a list of boundaries does not begin with 1";
  }
}

}  // namespace
}  // namespace ft::tune::dataset_test
