#include "cli/commands/start_choice.h"

#include <algorithm>
#include <gtest/gtest.h>

#include "cli/library/catalogue.h"

namespace ft::cli::start_choice_test {
namespace {

constexpr std::int64_t kGb = 1'000'000'000;

/// Working sets as owners of an M1 with 16 GB and an M5 Max with 48 GB published them.
TEST(StartChoice, AMacOffersWhatItsGpuMayUse) {
  const Room small = room_for_models(14 * kGb, "metal", 11'453'246'122),
             large = room_for_models(20 * kGb, "metal", 40'200'900'000);
  EXPECT_EQ(small.bytes, 11'453'246'122);
  EXPECT_TRUE(small.sentence.starts_with("The GPU may use 11.5 GB. Metal has not been measured"))
      << small.sentence;
  EXPECT_NE(small.sentence.find("`foretoken verify` checks this machine"), std::string::npos);
  EXPECT_EQ(large.bytes, 20 * kGb) << "the memory is less";
  const Room refused = room_for_models(14 * kGb, "metal", 0);
  EXPECT_EQ(refused.bytes, 14 * kGb) << "the processor is used";
  EXPECT_TRUE(refused.sentence.starts_with("The GPU is not used")) << refused.sentence;
}

TEST(StartChoice, OtherMachinesSayNothingOfTheGpu) {
  const Room room = room_for_models(14 * kGb, "cuda", 80 * kGb);
  EXPECT_EQ(room.bytes, 14 * kGb);
  EXPECT_EQ(room.sentence, "");
}

TEST(StartChoice, WithoutAQuestionTheMenusFirstThatFitsIsTaken) {
  const std::vector<ModelOffer> offers = {{ModelOffer::Kind::kHere, "large", 12 * kGb, ""},
                                          {ModelOffer::Kind::kHere, "small", 5 * kGb, ""},
                                          {ModelOffer::Kind::kPull, "fetched", 3 * kGb, ""}};
  const auto usual = [&](std::int64_t room) { return usual_offer(offers, room, false)->name; };
  EXPECT_EQ(usual(room_for_models(14 * kGb, "metal", 11 * kGb).bytes), "small");
  EXPECT_EQ(usual(room_for_models(14 * kGb, "cuda", 0).bytes), "large");
  EXPECT_EQ(usual_offer(offers, 4 * kGb, false), nullptr);
  EXPECT_EQ(usual_offer(offers, 4 * kGb, true)->name, "fetched");
}

TEST(StartChoice, WithoutAModelWhatTheMenuOffersFirstIsFetched) {
  for (const std::int64_t room : {20 * kGb, 200 * kGb}) {
    const std::vector<ModelOffer> offers = offer_models({}, room);
    EXPECT_EQ(usual_offer(offers, room, true), &offers.front()) << "not the largest: it may be slow here";
    EXPECT_EQ(usual_offer(offers, room, false), nullptr);
  }
}

std::vector<ModelOffer> fetched(const std::vector<ModelOffer>& offers) {
  std::vector<ModelOffer> found;
  for (const ModelOffer& offer : offers) {
    if (offer.kind == ModelOffer::Kind::kPull) found.push_back(offer);
  }
  return found;
}

/// The fastest of all is the smallest, so the largest at a comfortable speed come first.
TEST(StartChoice, TheLargestAtAComfortableSpeedComeFirstThenTheFastest) {
  EXPECT_DOUBLE_EQ(expected_speed(3'000'000'000, 40), 10);
  EXPECT_EQ(expected_speed(3'000'000'000, 0), 0);
  constexpr double kComfortable = 10;
  for (const double speed : {1.0, 10.0, 40.0, 200.0, 3000.0}) {
    for (const std::int64_t room : {4 * kGb, 25 * kGb, 300 * kGb}) {
      SCOPED_TRACE(std::to_string(speed) + " GB/s, " + std::to_string(room));
      const std::vector<ModelOffer> offers = fetched(offer_models({}, room, speed));
      ASSERT_FALSE(offers.empty());
      for (std::size_t i = 1; i < offers.size(); ++i) {
        const ModelOffer &a = offers[i - 1], &b = offers[i];
        const auto is_comfortable = [&](const ModelOffer& offer) {
          return offer.speed >= kComfortable && offer.memory <= room - room / 10;
        };
        if (!is_comfortable(a)) {
          EXPECT_FALSE(is_comfortable(b));
          EXPECT_GE(a.speed, b.speed);
        } else if (is_comfortable(b)) {
          EXPECT_GE(a.bytes, b.bytes);
        }
      }
      for (const ModelOffer& offer : offers) EXPECT_LE(offer.memory, room);
    }
  }
}

TEST(StartChoice, ARowHasSizeSpeedAndDrafterAndItsHeadingSaysThatTheSpeedIsAnEstimate) {
  const std::vector<ModelOffer> offers = offer_models({}, 5 * kGb, 40);
  const auto usual = std::ranges::find(offers, "Qwen3.5-4B", &ModelOffer::label);
  ASSERT_NE(usual, offers.end());
  EXPECT_EQ(usual->text, "  3.3 GB  9.4 tokens/s, 14 drafted, includes MTP head, Apache-2.0");
  EXPECT_EQ(usual->name, "mlx-community/Qwen3.5-4B-OptiQ-4bit") << "as pull takes it";
  const std::vector<MenuRow> rows = offer_rows(offers);
  EXPECT_TRUE(rows.front().heading);
  EXPECT_NE(rows.front().text.find("estimated"), std::string::npos) << rows.front().text;
  EXPECT_EQ(offer_models({}, 5 * kGb).front().text.find("tokens/s"), std::string::npos)
      << "the speed is unknown";
  EXPECT_NE(offer_models({}, 5 * kGb, 0.1).front().text.find("under 1 token/s"), std::string::npos);
}

TEST(StartChoice, TheListFitsAScreenAndTheHelpNamesTheRest) {
  for (const std::int64_t room : {0 * kGb, 5 * kGb, 25 * kGb, 300 * kGb}) {
    const std::vector<ModelOffer> offers = offer_models({}, room, 40);
    EXPECT_LE(offer_rows(offers).size(), 20U);
    const std::string rest = not_offered(offers, room);
    for (const CatalogueEntry& entry : catalogue()) {
      const bool is_row = std::ranges::find(offers, entry.name, &ModelOffer::label) != offers.end();
      EXPECT_NE(is_row, rest.find(" " + entry.name) != std::string::npos) << entry.name << rest;
    }
  }
}

}  // namespace
}  // namespace ft::cli::start_choice_test
