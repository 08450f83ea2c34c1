#include "text/stop_matcher.h"

#include <gtest/gtest.h>
#include <random>

namespace ft::stop_matcher_test {
namespace {

struct Outcome {
  std::string text;
  std::optional<size_t> match;
  bool operator==(const Outcome&) const = default;
};

/// The header's rule, implemented directly: the first end, then the longest, then the first listed.
Outcome by_the_rule(const std::string& text, const std::vector<std::string>& stops) {
  for (size_t end = 1; end <= text.size(); ++end) {
    std::optional<size_t> best;
    for (size_t i = 0; i < stops.size(); ++i) {
      if (text.substr(0, end).ends_with(stops[i]) && (!best || stops[i].size() > stops[*best].size())) {
        best = i;
      }
    }
    if (best) {
      return {text.substr(0, end - stops[*best].size()), best};
    }
  }
  return {text, std::nullopt};
}

StopMatcher matcher_of(const std::vector<std::string>& stops) {
  auto matcher = StopMatcher::create(stops);
  EXPECT_TRUE(matcher.ok());
  return *matcher;
}

Outcome streamed(const std::string& text, const std::vector<std::string>& stops, std::mt19937& random) {
  StopMatcher matcher = matcher_of(stops);
  Outcome outcome;
  for (size_t from = 0; from < text.size();) {
    const size_t size = 1 + random() % 4;
    const auto piece = matcher.push(std::string_view(text).substr(from, size));
    outcome.text += piece.text;
    if (piece.match) {
      EXPECT_FALSE(outcome.match.has_value());
      outcome.match = piece.match;
    }
    from += size;
  }
  outcome.text += matcher.flush();
  return outcome;
}

TEST(StopMatcher, HoldsBackWhileAStopMayStillMatch) {
  StopMatcher matcher = matcher_of({"END"});
  EXPECT_EQ(matcher.push("aE").text, "a");
  EXPECT_EQ(matcher.push("N").text, "");
  EXPECT_EQ(matcher.push("E").text, "EN");
  const auto piece = matcher.push("NDx");
  EXPECT_EQ(piece.text, "");
  EXPECT_EQ(piece.match, 0u);
  EXPECT_EQ(matcher.push("more").text, "");
  EXPECT_EQ(matcher.flush(), "");
}

TEST(StopMatcher, ShowsWhatWasHeldWhenTheAnswerEnds) {
  StopMatcher matcher = matcher_of({"\n\nUser:"});
  EXPECT_EQ(matcher.push("hi\n\nUse").text, "hi");
  EXPECT_EQ(matcher.flush(), "\n\nUse");
}

TEST(StopMatcher, LetsTheStopThatEndsFirstWinAndNeverLeaksALongerOne) {
  StopMatcher matcher = matcher_of({"abcd", "bc", "abc"});
  const auto piece = matcher.push("xabcd");
  EXPECT_EQ(piece.text, "x");  // "bc" and "abc" end together: the longest wins
  EXPECT_EQ(piece.match, 2u);
}

TEST(StopMatcher, GivesTheSameForEverySplitAndFollowsItsRule) {
  std::mt19937 random(7);
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::string> stops(random() % 4);
    for (std::string& stop : stops) {
      for (size_t i = 1 + random() % 4; i > 0; --i) {
        stop += static_cast<char>('a' + random() % 2);
      }
    }
    std::string text;
    for (size_t i = random() % 24; i > 0; --i) {
      text += static_cast<char>('a' + random() % 3);
    }
    ASSERT_EQ(streamed(text, stops, random), by_the_rule(text, stops)) << text;
  }
}

TEST(StopMatcher, RefusesStopsBeyondItsLimits) {
  EXPECT_FALSE(StopMatcher::create({""}).ok());
  EXPECT_TRUE(StopMatcher::create({std::string(kMaxStopBytes, 'x')}).ok());
  EXPECT_FALSE(StopMatcher::create({std::string(kMaxStopBytes + 1, 'x')}).ok());
  EXPECT_TRUE(StopMatcher::create(std::vector<std::string>(kMaxStops, "x")).ok());
  EXPECT_FALSE(StopMatcher::create(std::vector<std::string>(kMaxStops + 1, "x")).ok());
}

}  // namespace
}  // namespace ft::stop_matcher_test
