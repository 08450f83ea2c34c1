// Prompts with images against transformers in float32: sizes, pixels, positions, rows of the tower, logits,
// greedy text and chained drafts of every golden prompt. FORETOKEN_TRAINED names the folder of the trained
// models; without it only the small random tower is compared.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "backends/registry.h"
#include "tests/golden_files.h"

namespace ft::test::vision_golden_test {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

constexpr double kPictureError = 1e-2;  // of a logit with the trained tower: pixels may differ by 1 of 255
constexpr double kJpegError = 0.1;      // of a logit: two JPEG decoders differ by 1 or 2 of 255

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

struct Set {
  std::string name;
  double cpu_margin;  // of the reference over its second choice; with a larger one cpu must agree
  double cpu_rows;    // error of the tower's rows on cpu, relative to their size
};

struct Case {
  std::string backend;
  Set set;
  friend void PrintTo(const Case& c, std::ostream* out) { *out << c.backend << " " << c.set.name; }
};

/// A folder of links: the trained tower is published next to its text model.
class Joined {
 public:
  Joined(const fs::path& text, const fs::path& vision)
      : folder_(fs::temp_directory_path() / ("foretoken_vision_" + std::to_string(::getpid()))) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    for (const fs::path& from : {vision, text}) {
      for (const auto& entry : fs::directory_iterator(from)) {
        const fs::path to = folder_ / entry.path().filename();
        if (!fs::exists(fs::symlink_status(to))) fs::create_symlink(entry.path(), to);
      }
    }
  }
  ~Joined() { fs::remove_all(folder_); }
  Joined(const Joined&) = delete;
  Joined& operator=(const Joined&) = delete;
  std::string path() const { return folder_.string(); }

 private:
  fs::path folder_;
};

class VisionGolden : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    std::string folder = "tests/golden/vision";
    golden_ = fs::path(folder) / "golden";
    if (GetParam().set.name == "trained") {
      const char* trained = std::getenv("FORETOKEN_TRAINED");
      if (trained == nullptr) GTEST_SKIP() << "FORETOKEN_TRAINED names no folder: nothing was compared";
      const fs::path models(trained);
      golden_ = models / "qwen3.5-tiny-vision/golden";
      joined_ = std::make_unique<Joined>(models / "qwen3.5-tiny", models / "qwen3.5-tiny-vision");
      folder = joined_->path();
    }
    Result<Model> model = load_model(folder, {.draft_bits = 0});
    ASSERT_TRUE(model.ok()) << model.error().message;
    model_ = std::move(*model);
    ASSERT_TRUE(model_.vision) << model_.vision_problem;
    Result<std::unique_ptr<Backend>> backend = make_backend({GetParam().backend, 2});
    if (GetParam().backend == "cuda" && !backend.ok()) GTEST_SKIP() << backend.error().message;
    backend_ = std::move(*backend);
    DecoderOptions options;
    options.context = 256;
    options.prefill_chunk = 64;
    auto decoder = Decoder::make(*backend_, model_, options);
    ASSERT_TRUE(decoder.ok()) << decoder.error().message;
    decoder_ = std::move(*decoder);
    ASSERT_EQ(decoder_->images_problem(), "");
    for (const auto& entry : fs::directory_iterator(golden_)) {
      if (entry.path().extension() == ".json") prompts_.push_back(entry.path());
    }
    std::sort(prompts_.begin(), prompts_.end());
    ASSERT_GE(prompts_.size(), 2U);
  }

  bool exact() const { return GetParam().backend == "ref"; }
  double margin() const { return exact() ? 2 * kRefError : GetParam().set.cpu_margin; }

  std::shared_ptr<const images::Picture> picture(const Json& golden) const {
    const std::string file = read_file(golden_ / golden["file"].get<std::string>());
    auto loaded = images::load(file, model_.vision->settings, 0);
    EXPECT_TRUE(loaded.ok()) << loaded.error().message;
    return *loaded;
  }

  /// The images of a prompt, each where its run of image tokens begins.
  std::vector<PromptImage> images_of(const Json& golden) const {
    std::vector<PromptImage> images;
    const auto tokens = golden["tokens"].get<std::vector<std::int32_t>>();
    auto at = tokens.begin();
    for (const Json& each : golden["pictures"]) {
      at = std::find(at, tokens.end(), model_.vision->image_token);
      images.push_back({at - tokens.begin(), picture(each)});
      at += images.back().picture->tokens();
    }
    EXPECT_EQ(std::find(at, tokens.end(), model_.vision->image_token), tokens.end());
    return images;
  }

  /// Of a logit on `ref`.
  static double error(const Json& golden) {
    if (jpeg(golden)) return kJpegError;
    return GetParam().set.name == "trained" ? kPictureError : kRefError;
  }
  static bool jpeg(const Json& golden) {
    return std::ranges::any_of(golden["pictures"], [](const Json& each) {
      return each["file"].get<std::string>().ends_with(".jpg");
    });
  }

  void expect_rows(const Json& expected, std::span<const float> row) {
    ASSERT_EQ(expected.size(), row.size());
    double error = 0, size = 0;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const auto wanted = expected[i].get<double>();
      error += std::pow(static_cast<double>(row[i]) - wanted, 2), size += wanted * wanted;
    }
    EXPECT_LT(std::sqrt(error / size), exact() ? 1e-4 : GetParam().set.cpu_rows);
  }

  std::unique_ptr<Joined> joined_;
  fs::path golden_;
  Model model_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Decoder> decoder_;
  std::vector<fs::path> prompts_;
  int compared_ = 0;
};

TEST_P(VisionGolden, PicturesHaveThePublishedSizesAndPixels) {
  for (const fs::path& path : prompts_) {
    SCOPED_TRACE(path.stem().string());
    for (const Json& each : Json::parse(read_file(path))["pictures"]) {
      const auto loaded = picture(each);
      EXPECT_EQ(loaded->source.width, each["size"][0].get<int>());
      EXPECT_EQ(loaded->source.height, each["size"][1].get<int>());
      EXPECT_EQ(loaded->rows, each["grid"][0].get<int>());
      EXPECT_EQ(loaded->columns, each["grid"][1].get<int>());
      EXPECT_EQ(loaded->tokens(), each["image_tokens"].get<std::int64_t>());
      const Json& values = each["pixel_values"];
      std::vector<float> patch(static_cast<std::size_t>(model_.vision->settings.patch_floats()));
      double sum = 0;
      for (std::int64_t i = 0; i < loaded->patches(); ++i) {
        images::write_patch(*loaded, model_.vision->settings, i, patch.data());
        for (const float value : patch) sum += static_cast<double>(value);
        for (const char* which : {"first", "last"}) {
          if (i != (*which == 'f' ? 0 : loaded->patches() - 1)) continue;
          for (std::size_t j = 0; j < values[which].size(); ++j)
            EXPECT_NEAR(static_cast<double>(patch[j]), values[which][j].get<double>(), 2 * 2.0 / 255 + 1e-5);
        }
      }
      const auto count = static_cast<double>(loaded->patches()) * static_cast<double>(patch.size());
      EXPECT_NEAR(sum / count, values["sum"].get<double>() / count, 2e-3) << "the mean of all values";
    }
  }
}

TEST_P(VisionGolden, PositionsAreThoseOfTransformers) {
  for (const fs::path& path : prompts_) {
    SCOPED_TRACE(path.stem().string());
    const Json golden = Json::parse(read_file(path));
    PositionMap map;
    for (const PromptImage& image : images_of(golden))
      map.add({image.first, image.picture->token_rows(), image.picture->token_columns()});
    const Json& ids = golden["position_ids"];
    for (std::size_t i = 0; i < ids[0].size(); ++i) {
      for (std::size_t axis = 0; axis < 3; ++axis)
        EXPECT_EQ(map.at(static_cast<std::int64_t>(i))[axis], ids[axis][i].get<int>()) << i;
    }
    const auto end = static_cast<std::int64_t>(ids[0].size());
    EXPECT_EQ(map.at(end)[0] - end, golden["rope_delta"].get<std::int64_t>());
  }
}

TEST_P(VisionGolden, TheTowersRowsAreThoseOfTransformers) {
  const auto encoder = std::move(*ImageEncoder::make(*backend_, *model_.vision, 0));
  const auto width = static_cast<std::size_t>(model_.facts.width);
  for (const fs::path& path : prompts_) {
    SCOPED_TRACE(path.stem().string());
    for (const Json& each : Json::parse(read_file(path))["pictures"]) {
      const auto loaded = picture(each);
      const auto tokens = static_cast<std::int32_t>(loaded->tokens());
      const auto store = std::move(*backend_->make_rows(model_.facts.width, tokens));
      encoder->encode(*loaded, *store, 0);
      std::vector<float> row(width);
      store->read(0, row);
      expect_rows(each["merged_first"], row);
      store->read(tokens - 1, row);
      expect_rows(each["merged_last"], row);
    }
  }
}

TEST_P(VisionGolden, LogitsAndGreedyTextAreThoseOfTransformers) {
  for (const fs::path& path : prompts_) {
    SCOPED_TRACE(path.stem().string());
    const Json golden = Json::parse(read_file(path));
    auto tokens = golden["tokens"].get<std::vector<std::int32_t>>();
    const std::size_t prompt = tokens.size();
    const auto greedy = golden["greedy"]["tokens"].get<std::vector<std::int32_t>>();
    tokens.insert(tokens.end(), greedy.begin(), greedy.end());
    const auto index = golden["positions"]["index"].get<std::vector<std::size_t>>();
    auto slot = std::move(*decoder_->open(tokens, {}, DrafterKind::kNone, {}, images_of(golden)));
    slot->on_prompt_row = [&](std::int64_t row, std::span<const float> logits) {
      const auto best = std::max_element(logits.begin(), logits.end());
      const auto choice = static_cast<std::int32_t>(best - logits.begin());
      const auto at = static_cast<std::size_t>(row);
      const auto found = std::find(index.begin(), index.end(), at);
      if (exact() && found != index.end()) {
        const Json& wanted = golden["positions"]["logit"][static_cast<std::size_t>(found - index.begin())];
        EXPECT_NEAR(static_cast<double>(*best), wanted.get<double>(), error(golden)) << at;
      }
      if (at + 1 < prompt || golden["greedy"]["margin"][at + 1 - prompt].get<double>() <= margin()) return;
      EXPECT_EQ(choice, greedy[at + 1 - prompt]) << "greedy token " << at + 1 - prompt;
      ++compared_;
    };
    while (!slot->prefilled()) ASSERT_TRUE(decoder_->prefill(*slot, 64).ok());
    decoder_->close(*slot);
  }
  EXPECT_GT(compared_, 30);
}

TEST_P(VisionGolden, ChainedDraftsAreThoseOfTransformers) {
  if (!model_.mtp) GTEST_SKIP() << "the model has no MTP head";
  for (const fs::path& path : prompts_) {
    SCOPED_TRACE(path.stem().string());
    const Json golden = Json::parse(read_file(path));
    auto tokens = golden["tokens"].get<std::vector<std::int32_t>>();
    const auto greedy = golden["greedy"]["tokens"].get<std::vector<std::int32_t>>();
    tokens.insert(tokens.end(), greedy.begin(), greedy.end());
    SlotOptions options;
    options.max_tokens = 1;
    auto slot = std::move(*decoder_->open(tokens, options, DrafterKind::kMtp, {}, images_of(golden)));
    for (const Json& item : golden["mtp"]) {
      const auto pending = item["pending_index"].get<std::int64_t>();
      const std::vector<std::int32_t> drafts =
          drafts_after(*decoder_, *slot, tokens, pending, static_cast<int>(item["drafts"].size()));
      for (std::size_t i = 0; i < item["drafts"].size(); ++i) {
        const Json& top = item["top5"][i];
        if (top[0][1].get<double>() - top[1][1].get<double>() <= margin()) break;
        EXPECT_EQ(drafts[i], item["drafts"][i].get<std::int32_t>())
            << "pending " << pending << " draft " << i;
        ++compared_;
      }
    }
    decoder_->close(*slot);
  }
  EXPECT_GT(compared_, 10);
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char* backend : {"ref", "cpu", "cuda"}) {
    all.push_back({backend, {"random", 0.1, 0.02}});
    all.push_back({backend, {"trained", 0.1, 0.02}});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Models, VisionGolden, testing::ValuesIn(cases()),
                         [](const auto& param) { return param.param.set.name + "_" + param.param.backend; });

}  // namespace
}  // namespace ft::test::vision_golden_test
