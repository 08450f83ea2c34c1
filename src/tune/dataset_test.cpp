// Shards of the toy model: the same bytes for any number of streams, and after any stop.
#include "tune/dataset.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>

#include "backends/weight_rows.h"
#include "base/text_file.h"
#include "format/half.h"
#include "format/model_fixture.h"
#include "tests/toy_decoder.h"
#include "tune/target_file.h"

namespace ft::tune::dataset_test {
namespace {

using format::TemporaryFolder;
namespace fs = std::filesystem;

constexpr std::size_t kMaxBytes = std::size_t{1} << 24;
constexpr int kVocabulary = 101, kTogether = 3;

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
  plan.header = {"toy", "prompts", {-1, 0}, 2 * toy().hidden, toy().hidden, 0};
  return plan;
}

Status write(const DatasetPlan& plan, int streams, int stop_after = 1 << 30) {
  test::ToyDecoder decoder(streams + kTogether, toy());
  Result<TextReader> reader = TextReader::make(*decoder, "eagle3", kTogether);
  if (!reader.ok()) return reader.error();
  const Result<DatasetCheck> found = check_shards(plan);
  if (!found.ok()) return found.error();
  return write_shards(*decoder, *reader, plan, found->missing, {streams, {}, streams < 4}, next,
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
  const Result<DatasetCheck> found = check_shards(plan);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->missing, (std::vector<std::int64_t>{1}));
  EXPECT_GT(found->whole.tokens, 100);
  ASSERT_TRUE(write(plan, 2).ok());
  EXPECT_EQ(bytes_of(plan), before);
  plan.header.model = "another";
  EXPECT_EQ(check_shards(plan).error().code, Code::kInvalid);
}

/// The largest product of a float16 row with the toy's LM head.
std::int32_t likeliest(const Weight& head, const std::uint16_t* row) {
  std::vector<float> values(static_cast<std::size_t>(head.rows * head.cols));
  read_rows(head, 0, head.rows, values.data());
  std::int32_t best = 0;
  float largest = -1e30F;
  for (std::int64_t id = 0; id < head.rows; ++id) {
    float sum = 0;
    for (std::int64_t j = 0; j < head.cols; ++j)
      sum += format::f16_to_float(row[j]) * values[static_cast<std::size_t>(id * head.cols + j)];
    if (sum > largest) largest = sum, best = static_cast<std::int32_t>(id);
  }
  return best;
}

TEST(Dataset, TheLastHiddenRowsGiveTheTokensOfGreedyAnswers) {
  const TemporaryFolder folder;
  const DatasetPlan plan = plan_in(folder);
  ASSERT_TRUE(write(plan, 2).ok());
  const Result<std::vector<Document>> documents = read_shard(shard_path(plan, 0), shard_header(plan, 0));
  ASSERT_TRUE(documents.ok()) << documents.error().message;
  ASSERT_GT(documents->size(), 20U);
  const test::ToyModel model(toy());
  const Logits* logits = target_logits(model.target);
  ASSERT_NE(logits, nullptr);
  const auto width = static_cast<std::size_t>(toy().hidden);
  int greedy = 0;
  for (const Document& document : *documents) {
    const auto first = static_cast<std::size_t>(document.prompt_tokens);
    ASSERT_LT(first, document.tokens.size());
    ASSERT_EQ(document.hidden.size(), document.tokens.size() * width);
    ASSERT_EQ(document.rows.size(), document.tokens.size() * 2 * width);
    std::size_t same = 0;
    for (std::size_t i = first; i < document.tokens.size(); ++i)
      same += likeliest(logits->lm_head, &document.hidden[(i - 1) * width]) == document.tokens[i] ? 1U : 0U;
    greedy += same + 1 >= document.tokens.size() - first ? 1 : 0;  // float16 may decide one near tie
  }
  EXPECT_GE(greedy, 10) << "half of the answers are greedy";
}

TEST(Dataset, RowsDoNotDependOnWhatIsReadTogether) {
  std::vector<Answered> texts;
  for (const int size : {150, 9, 30, 1, 77, 12, 5, 5, 5}) {
    Answered text;
    for (int i = 0; i < size; ++i) text.tokens.push_back((i + size) * 37 % kVocabulary);
    text.prompt_tokens = size / 3;
    texts.push_back(text);
  }
  std::vector<Document> alone;
  for (const int chunk : {64, 32, 7}) {
    for (const int together : {1, 4}) {
      test::ToyDecoder decoder(5, toy());
      Result<TextReader> reader = TextReader::make(*decoder, "eagle3", together, chunk);
      ASSERT_TRUE(reader.ok());
      const Result<std::vector<Document>> read = reader->read(texts);
      ASSERT_TRUE(read.ok()) << read.error().message;
      ASSERT_EQ(read->size(), texts.size());
      if (alone.empty()) alone = *read;
      for (std::size_t i = 0; i < texts.size(); ++i) {
        EXPECT_EQ((*read)[i].tokens, texts[i].tokens);
        EXPECT_EQ((*read)[i].rows, alone[i].rows) << chunk << ' ' << together << ' ' << i;
        EXPECT_EQ((*read)[i].hidden, alone[i].hidden) << chunk << ' ' << together << ' ' << i;
      }
    }
  }
}

TEST(Dataset, WithoutLayersOnlyTheLastHiddenRowsAreKept) {
  test::ToyDecoder decoder(2, toy());
  Result<TextReader> reader = TextReader::make(*decoder, "", 1);
  ASSERT_TRUE(reader.ok());
  EXPECT_EQ(reader->width(), 0);
  const Result<std::vector<Document>> read = reader->read({{{1, 2, 3}, 1}});
  ASSERT_TRUE(read.ok());
  EXPECT_TRUE(read->front().rows.empty());
  EXPECT_EQ(read->front().hidden.size(), 3 * static_cast<std::size_t>(toy().hidden));
}

TEST(Dataset, ATargetThatCapturesNothingIsRefused) {
  test::ToyDecoder decoder(2);
  const Result<TextReader> reader = TextReader::make(*decoder, "eagle3", kTogether);
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
