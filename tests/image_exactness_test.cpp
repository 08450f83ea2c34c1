// Prompts with images on the shipped model: every drafter, depth, chunk and neighbour gives the tokens of
// plain decoding, and so does a prompt that continues from a snapshot, which reads no image again.
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>

#include "backends/registry.h"
#include "speculation/decoder.h"

namespace ft::test::image_exactness_test {
namespace {

class ImageExactness : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists("assets/qwen3.5-tiny/vision.safetensors"))
      GTEST_SKIP() << "assets/qwen3.5-tiny holds no tower";
    model_ = std::move(*load_model("assets/qwen3.5-tiny"));
    ASSERT_TRUE(model_.vision) << model_.vision_problem;
    std::ifstream file("assets/shapes.png", std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(file)), {});
    picture_ = *images::load(bytes, model_.vision->settings, 0);
    prompt_ = {5, 9, 40};
    image_.first = 3, image_.picture = picture_;
    prompt_.insert(prompt_.end(), static_cast<std::size_t>(picture_->tokens()), model_.vision->image_token);
    for (const std::int32_t token : {8182, 786, 326, 220, 23, 17, 13}) prompt_.push_back(token);
    text_ = {100, 200, 300, 400, 500};
  }

  std::unique_ptr<Decoder> decoder(int threads, int slots = 2) {
    backend_ = std::move(*make_backend({"cpu", threads}));
    DecoderOptions options;
    options.slots = slots, options.context = 256, options.cache_bytes = 64 << 20;
    return std::move(*Decoder::make(*backend_, model_, options));
  }

  static SlotOptions options(int depth, float temperature) {
    SlotOptions options;
    options.depth = depth, options.max_tokens = 24;
    options.sampler.temperature = temperature;
    options.sampler.seed = 7;
    return options;
  }

  static void finish(Decoder& decoder, std::vector<Slot*> slots, int chunk) {
    for (Slot* slot : slots) {
      while (!slot->prefilled()) ASSERT_TRUE(decoder.prefill(*slot, chunk).ok());
    }
    while (!slots.empty()) {
      decoder.round(slots);
      std::erase_if(slots, [](const Slot* slot) { return slot->finish != Finish::kNone; });
    }
  }

  std::vector<std::int32_t> answer(Decoder& decoder, DrafterKind kind, const SlotOptions& wanted, int chunk,
                                   bool neighbour, std::int64_t* drafted = nullptr) {
    auto slot = std::move(*decoder.open(prompt_, wanted, kind, {}, {&image_, 1}));
    std::unique_ptr<Slot> other;
    std::vector<Slot*> slots = {slot.get()};
    if (neighbour) {
      other = std::move(*decoder.open(text_, wanted, kind));
      slots.push_back(other.get());
    }
    finish(decoder, slots, chunk);
    if (drafted != nullptr) *drafted += slot->report.drafted;
    std::vector<std::int32_t> tokens = slot->tokens;
    decoder.close(*slot);
    if (other) decoder.close(*other);
    return tokens;
  }

  Model model_;
  std::unique_ptr<Backend> backend_;
  std::shared_ptr<const images::Picture> picture_;
  PromptImage image_;
  std::vector<std::int32_t> prompt_, text_;
};

TEST_F(ImageExactness, EveryDraftGivesThePlainTokens) {
  for (const float temperature : {0.0F, 0.8F}) {
    std::vector<std::int32_t> plain;
    std::int64_t drafted = 0;
    for (const int threads : {1, 2}) {
      const auto decoding = decoder(threads);
      if (plain.empty()) plain = answer(*decoding, DrafterKind::kNone, options(0, temperature), 64, false);
      for (const int chunk : threads == 1 ? std::vector<int>{5, 17, 64} : std::vector<int>{17}) {
        for (const int depth : {0, 1, 4}) {
          for (const bool neighbour : {false, true}) {
            EXPECT_EQ(
                answer(*decoding, DrafterKind::kMtp, options(depth, temperature), chunk, neighbour, &drafted),
                plain)
                << threads << " threads, chunk " << chunk << ", depth " << depth << ", neighbour "
                << neighbour;
          }
        }
      }
    }
    EXPECT_GT(drafted, 0) << "nothing was drafted: the test proves nothing";
    EXPECT_GT(plain.size(), prompt_.size() + 2);
  }
}

TEST_F(ImageExactness, ASnapshotServesAnotherQuestionWithoutReadingTheImageAgain) {
  const auto decoding = decoder(2);
  auto first = std::move(*decoding->open(prompt_, options(2, 0), DrafterKind::kMtp, {}, {&image_, 1}));
  finish(*decoding, {first.get()}, 64);
  const auto end = image_.end() + 2;
  auto kept = std::move(*decoding->open(std::span(prompt_).first(static_cast<std::size_t>(end) + 1),
                                        options(2, 0), DrafterKind::kMtp, {}, {&image_, 1}));
  while (!kept->prefilled()) ASSERT_TRUE(decoding->prefill(*kept, 64).ok());
  const Result<Snapshot> snapshot = decoding->snapshot(*kept);
  ASSERT_TRUE(snapshot.ok()) << snapshot.error().message;
  decoding->close(*kept);
  const std::int64_t read = decoding->images_read();
  auto second =
      std::move(*decoding->open(prompt_, options(2, 0), DrafterKind::kMtp, {&*snapshot, end}, {&image_, 1}));
  finish(*decoding, {second.get()}, 64);
  EXPECT_EQ(second->tokens, first->tokens);
  EXPECT_EQ(second->report.drafted, first->report.drafted);
  EXPECT_EQ(second->report.accepted, first->report.accepted);
  EXPECT_EQ(decoding->images_read(), read);
  decoding->close(*first), decoding->close(*second);
}

TEST_F(ImageExactness, APromptHasALimitedNumberOfImageTokens) {
  backend_ = std::move(*make_backend({"cpu", 1}));
  DecoderOptions options;
  options.slots = 1, options.context = 20'000;
  const auto decoder = std::move(*Decoder::make(*backend_, model_, options));
  const std::int64_t most = kMaxImageTokens / picture_->tokens();
  for (const std::int64_t count : {most, most + 1}) {
    std::vector<PromptImage> images;
    std::vector<std::int32_t> prompt = {5};
    for (std::int64_t i = 0; i < count; ++i) {
      images.push_back({static_cast<std::int64_t>(prompt.size()), picture_});
      prompt.resize(prompt.size() + static_cast<std::size_t>(picture_->tokens()), model_.vision->image_token);
    }
    prompt.push_back(9);
    auto slot = decoder->open(prompt, ImageExactness::options(0, 0), DrafterKind::kNone, {}, images);
    EXPECT_EQ(slot.ok(), count == most);
    if (slot.ok()) {
      decoder->close(**slot);
    } else {
      EXPECT_EQ(slot.error().code, Code::kExhausted);
      EXPECT_NE(slot.error().message.find("16384"), std::string::npos) << slot.error().message;
    }
  }
}

}  // namespace
}  // namespace ft::test::image_exactness_test
