// Steps with images: rows that the step gives in place of embeddings, and positions on three axes.
#include <cmath>
#include <gtest/gtest.h>

#include "backends/cuda/test_devices.h"
#include "backends/random_weights.h"

namespace ft::coordinates_test {
namespace {

constexpr int kRows = 40, kWidth = 32, kHeads = 2, kHeadDim = 16, kVocabulary = 50;

/// "ref", "cpu", or a device of the cuda backend.
class Coordinated : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const bool host = GetParam() == "ref" || GetParam() == "cpu";
    auto backend = host ? make_backend({.name = GetParam(), .threads = 2}) : cuda_on(GetParam());
    if (!host && !backend.ok()) GTEST_SKIP() << backend.error().message;
    backend_ = std::move(*backend);
    table_ = random_.plain(Format::kF32, kVocabulary, kWidth, 1);
    const Row x = program_.embed(table_);
    const int width = kHeads * kHeadDim;
    const std::vector<Row> qkv = program_.linear(x, {random_.plain(Format::kF32, width, kWidth, 0.3F),
                                                     random_.plain(Format::kF32, width, kWidth, 0.3F),
                                                     random_.plain(Format::kF32, width, kWidth, 0.3F)});
    Attention attend;
    attend.q = qkv[0], attend.k = qkv[1], attend.v = qkv[2];
    attend.heads = attend.kv_heads = kHeads, attend.head_dim = attend.rotary = kHeadDim;
    for (int j = 0; j < kHeadDim / 2; ++j) {
      attend.inverse_frequencies.push_back(std::pow(100.0F, -static_cast<float>(j) / 8.0F));
      attend.frequency_axes.push_back(static_cast<std::uint8_t>(j % 3));
    }
    attend.eps = 1e-6F, attend.scale = 0.25F;
    program_.capture("out", program_.attend(attend));
    executable_ = std::move(*backend_->compile(program_, {.max_rows = kRows, .max_logit_rows = 1}));
    for (int r = 0; r < kRows; ++r) {
      tokens_.push_back((r * 7) % kVocabulary);
      blocks_.push_back(r);
    }
  }

  /// The rows of `chunk` at a time.
  std::vector<float> run(std::span<const Coordinates> coordinates, RowPlaces embeddings, int chunk = kRows) {
    const auto state = std::move(*backend_->make_state(program_.layout(), {.slots = 1, .blocks = kRows}));
    const auto out = std::move(*backend_->make_rows(kHeads * kHeadDim, kRows));
    for (int begin = 0; begin < kRows; begin += chunk) {
      const int rows = std::min(chunk, kRows - begin);
      const auto first = static_cast<std::size_t>(begin), count = static_cast<std::size_t>(rows);
      const Segment segment{{blocks_, 0, 0, 0}, begin, rows, rows};
      StepArgs args;
      args.tokens = std::span(tokens_).subspan(first, count);
      args.segments = {&segment, 1};
      args.capture = {out.get(), std::span(blocks_).subspan(first, count)};
      if (!coordinates.empty()) args.coordinates = coordinates.subspan(first, count);
      if (embeddings.store != nullptr)
        args.embeddings = {embeddings.store, embeddings.places.subspan(first, count)};
      executable_->run(args, *state);
    }
    std::vector<float> rows(static_cast<std::size_t>(kRows) * kHeads * kHeadDim);
    out->read(0, rows);
    return rows;
  }

  RandomWeights random_{5};
  Weight table_;
  Program program_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Executable> executable_;
  std::vector<std::int32_t> tokens_, blocks_;
};

TEST_P(Coordinated, EqualAxesHaveTheBitsOfPositions) {
  std::vector<Coordinates> even;
  for (int r = 0; r < kRows; ++r) even.push_back({r, r, r});
  EXPECT_EQ(run(even, {}), run({}, {}));
}

TEST_P(Coordinated, EachFrequencyIsTurnedByItsAxis) {
  std::vector<Coordinates> grid;
  for (int r = 0; r < kRows; ++r) grid.push_back({3, r / 6, r % 6});
  const std::vector<float> rows = run(grid, {});
  EXPECT_NE(rows, run({}, {}));
  for (const int chunk : {1, 3, 16}) EXPECT_EQ(run(grid, {}, chunk), rows) << chunk;
  std::vector<Coordinates> moved = grid;  // only differences between rows count
  for (Coordinates& each : moved) each[1] += 5, each[2] += 9;
  const std::vector<float> same = run(moved, {});
  for (std::size_t i = 0; i < rows.size(); ++i) EXPECT_NEAR(same[i], rows[i], 4e-3F) << i;
  for (Coordinates& each : grid) std::swap(each[1], each[2]);
  EXPECT_NE(run(grid, {}), rows);
}

TEST_P(Coordinated, AGivenRowTakesThePlaceOfAnEmbedding) {
  const auto store = std::move(*backend_->make_rows(kWidth, 2 * kVocabulary));
  const auto* values = reinterpret_cast<const float*>(table_.data);
  store->write(0, {values, static_cast<std::size_t>(kVocabulary) * kWidth});
  std::vector<std::int32_t> places;
  for (int r = 0; r < kRows; ++r) places.push_back(r % 3 == 0 ? -1 : tokens_[static_cast<std::size_t>(r)]);
  const std::vector<float> expected = run({}, {});
  EXPECT_EQ(run({}, {store.get(), places}), expected);
  places[4] = (places[4] + 1) % kVocabulary;
  EXPECT_NE(run({}, {store.get(), places}), expected);
}

std::vector<std::string> devices() {
  std::vector<std::string> all = cuda_devices();
  all.insert(all.end(), {"ref", "cpu"});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Backends, Coordinated, testing::ValuesIn(devices()),
                         [](const auto& param) { return param.param == "auto" ? "gpu" : param.param; });

}  // namespace
}  // namespace ft::coordinates_test
