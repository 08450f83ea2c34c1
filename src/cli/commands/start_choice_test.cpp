#include "cli/commands/start_choice.h"

#include <gtest/gtest.h>

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

TEST(StartChoice, OffersAreSortedByTheirExpectedSpeedAndSayThatItIsAnEstimate) {
  EXPECT_DOUBLE_EQ(expected_speed(3'000'000'000, 40), 10);
  EXPECT_EQ(expected_speed(3'000'000'000, 0), 0);
  const std::vector<ModelOffer> offers = offer_models({}, 200 * kGb, 40);
  ASSERT_GE(offers.size(), 2U);
  for (std::size_t i = 1; i < offers.size() && offers[i].kind == ModelOffer::Kind::kPull; ++i)
    EXPECT_GE(offers[i - 1].speed, offers[i].speed);
  EXPECT_NE(offers.front().text.find("drafted (estimate)"), std::string::npos) << offers.front().text;
  EXPECT_NE(offers.front().text.find("includes MTP head"), std::string::npos);
  EXPECT_EQ(offer_models({}, 200 * kGb).front().text.find("tokens/s"), std::string::npos)
      << "nothing is said of a speed that is unknown";
}

}  // namespace
}  // namespace ft::cli::start_choice_test
