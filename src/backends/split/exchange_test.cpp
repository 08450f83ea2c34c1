// Words between ranks arrive whole on any wire, and a group of ranks survives the failure of one.
#include <functional>
#include <gtest/gtest.h>

#include "backends/split/rank_group.h"
#include "backends/split/shuffled_wire.h"
#include "program/backend.h"

namespace ft::split::exchange_test {
namespace {

float value_of(std::uint32_t number, int from, std::size_t index) {
  return static_cast<float>(number * 1000 + static_cast<std::uint32_t>(from) * 100 + index % 100);
}

std::size_t count_of(std::uint32_t number, int from) {
  return (number * 7 + static_cast<std::uint32_t>(from) * 3) % 11;  // sometimes none
}

/// Ranks that a test advances one by one, so that a schedule of a seed is always the same.
class Schedule {
 public:
  using Arrival = Mailboxes::Arrival;
  Schedule(int ranks, unsigned seed)
      : random_(seed), wire_(seed + 1), boxes_(ranks, wire_), ranks_(static_cast<std::size_t>(ranks)) {
    boxes_.reserve(16);
    for (Rank& rank : ranks_) rank.seen.resize(ranks_.size());
  }

  /// Exchanges until each rank has had `exchanges`; false: a rank has read a value that nobody sent.
  /// `there(to, from, number, count, seen)` decides that the values may be read.
  template <class There>
  bool run(std::uint32_t exchanges, const There& there) {
    bool good = true;
    while (
        std::ranges::any_of(ranks_, [&](const Rank& rank) { return rank.number < exchanges || rank.waits; }))
      good &= advance(static_cast<int>(random_() % ranks_.size()), exchanges, there);
    return good && !wire_.overtaken();
  }
  Mailboxes& boxes() { return boxes_; }

 private:
  struct Rank {
    std::uint32_t number = 0;
    bool waits = false;
    std::vector<std::size_t> seen;
  };

  template <class There>
  bool advance(int number, std::uint32_t exchanges, const There& there) {
    Rank& rank = ranks_[static_cast<std::size_t>(number)];
    if (!rank.waits) {
      if (rank.number == exchanges) return true;
      ++rank.number, rank.waits = true;
      std::ranges::fill(rank.seen, 0);
      std::vector<float> values(count_of(rank.number, number));
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = value_of(rank.number, number, i);
      for (int other = 0; other < static_cast<int>(ranks_.size()); ++other)
        if (other != number) boxes_.send(number, other, rank.number, values);
      return true;
    }
    boxes_.waiting();
    bool all = true, good = true;
    for (int other = 0; other < static_cast<int>(ranks_.size()); ++other) {
      if (other == number) continue;
      all &= there(number, other, rank.number, count_of(rank.number, other),
                   rank.seen[static_cast<std::size_t>(other)]);
    }
    if (!all) return true;
    rank.waits = false;
    for (int other = 0; other < static_cast<int>(ranks_.size()); ++other) {
      for (std::size_t i = 0; other != number && i < count_of(rank.number, other); ++i)
        good &= boxes_.value(number, other, rank.number, i) == value_of(rank.number, other, i);
    }
    return good;
  }

  std::mt19937 random_;
  ShuffledWire wire_;
  Mailboxes boxes_;
  std::vector<Rank> ranks_;
};

TEST(Exchange, ARankReadsWhatWasSentWheneverItArrives) {
  for (const int ranks : {2, 3, 4, 8}) {
    for (unsigned seed = 0; seed < 40; ++seed) {
      Schedule schedule(ranks, seed);
      EXPECT_TRUE(schedule.run(
          12,
          [&](int to, int from, std::uint32_t number, std::size_t count, std::size_t& seen) {
            return schedule.boxes().arrival(to, from, number, count, seen) == Mailboxes::Arrival::kThere;
          }))
          << ranks << " ranks, seed " << seed;
    }
  }
}

TEST(Exchange, TheseSchedulesFindAReceiverThatTrustsTheOrderOfArrival) {
  int found = 0;
  for (unsigned seed = 0; seed < 40; ++seed) {
    Schedule schedule(2, seed);
    found += schedule.run(12,
                          [&](int to, int from, std::uint32_t number, std::size_t count, std::size_t& seen) {
                            (void)schedule.boxes().arrival(to, from, number, count, seen);
                            return seen > 0;  // the first word is there, so the others are
                          })
                 ? 0
                 : 1;
  }
  EXPECT_GT(found, 30);
}

TEST(Exchange, AnotherNumberOfValuesIsSeen) {
  Wire wire;
  Mailboxes boxes(2, wire);
  boxes.reserve(4);
  const std::vector<float> two = {1, 2};
  boxes.send(1, 0, 1, two);
  std::size_t seen = 0;
  EXPECT_EQ(boxes.arrival(0, 1, 1, 3, seen), Mailboxes::Arrival::kOther);
  seen = 0;
  EXPECT_EQ(boxes.arrival(0, 1, 2, 2, seen), Mailboxes::Arrival::kWaiting);
}

RankExchange halves() { return {4, {{{0, 2}}, {{2, 2}}}, {}, {}}; }

class Group : public testing::Test {
 protected:
  static RankGroupOptions patient(int patience_ms) {
    RankGroupOptions options;
    options.patience_ms = patience_ms;
    return options;
  }
  /// An exchange of `rows` rows; true: both ranks have the whole rows.
  static bool works(RankGroup& group, int rows) {
    std::atomic<int> good{0};
    group.run([&](int rank) {
      std::vector<float> sent, made(static_cast<std::size_t>(4 * rows));
      for (int i = 0; i < 2 * rows; ++i) sent.push_back(static_cast<float>(10 * rank + i));
      group.exchange(rank, halves(), rows, sent, made);
      bool same = true;
      for (int row = 0; row < rows; ++row) {
        for (int column = 0; column < 4; ++column)
          same &= made[static_cast<std::size_t>(4 * row + column)] ==
                  static_cast<float>(10 * (column / 2) + 2 * row + column % 2);
      }
      good += same ? 1 : 0;
    });
    return good == 2;
  }
};

TEST_F(Group, EachRankHasTheColumnsOfAllInOrder) {
  RankGroupOptions options;
  options.wire = std::make_unique<ShuffledWire>(5);
  RankGroup group({"device 1 (a)", "device 2 (b)"}, std::move(options));
  group.reserve(20);
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(works(group, 1 + i % 10)) << i;
}

TEST_F(Group, AFailedStepEndsAllRanksAndTheNextOneRuns) {
  RankGroup group({"device 1 (a)", "device 2 (b)"}, {});
  group.reserve(8);
  for (const int failing : {0, 1}) {
    try {
      group.run([&](int rank) {
        if (rank == failing) throw std::runtime_error("no memory");
        std::vector<float> sent(2), made(4);
        group.exchange(rank, halves(), 1, sent, made);
      });
      FAIL() << "the step has ended well";
    } catch (const std::runtime_error& failure) {
      EXPECT_STREQ(failure.what(), "no memory");
    }
    EXPECT_TRUE(works(group, 2));
  }
}

TEST_F(Group, ALostDeviceLosesTheGroup) {
  RankGroup group({"device 1 (a)", "device 2 (b)"}, {});
  group.reserve(8);
  const auto lose = [](int rank) {
    if (rank == 1) throw BackendLost("device 2 (b): it fell off the bus");
  };
  for (int i = 0; i < 2; ++i) {  // later steps have its sentence too
    try {
      i == 0 ? group.run(lose) : group.run([](int) { ADD_FAILURE() << "a step of a lost group"; });
      FAIL() << "the step has ended well";
    } catch (const BackendLost& lost) {
      EXPECT_STREQ(lost.what(), "device 2 (b): it fell off the bus");
    }
  }
}

TEST_F(Group, ARankThatNeverAnswersIsNamedAfterABoundedWait) {
  std::atomic<bool> released{false};
  const RankExchange thirds{3, {{{0, 1}}, {{1, 1}}, {{2, 1}}}, {}, {}};
  RankGroup* group = nullptr;
  const std::function<void(int)> work = [&](int rank) {  // the second rank is in it after the step is lost
    if (rank == 1) released.wait(false);
    std::vector<float> sent(1), made(3);
    group->exchange(rank, thirds, 1, sent, made);
  };
  RankGroup three({"device 1 (a)", "device 2 (b)", "device 3 (c)"}, patient(5));
  group = &three;
  three.reserve(8);
  for (int i = 0; i < 2; ++i) {  // later steps have its sentence too
    try {
      three.run(work);
      FAIL() << "the step has ended well";
    } catch (const BackendLost& lost) {
      EXPECT_STREQ(
          lost.what(),
          "device 2 (b) has not sent its part of a row for 0.005 s; restart the program, without this "
          "device if it happens again");
    }
  }
  released = true;
  released.notify_all();
  three.settle();
}

}  // namespace
}  // namespace ft::split::exchange_test
