#include "server/front/model_pool.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <map>
#include <random>
#include <set>

namespace ft::server::model_pool_test {
namespace {

using State = PooledModel::State;
using Kind = PoolAction::Kind;

/// A pool whose processes act at once. The test sets the clock.
class Rig {
 public:
  Rig(const std::vector<std::int64_t>& bytes, PoolLimits limits)
      : bytes_(bytes), pool(names(bytes), limits) {}

  /// Carries out the pool's actions until there are none.
  void settle() {
    for (auto actions = pool.step(now); !actions.empty(); actions = pool.step(now)) {
      for (const PoolAction& action : actions) act(action);
      check();
    }
    check();
  }
  bool ask(std::size_t model) {
    pool.wait(model, now);
    settle();
    return begin(model);
  }
  bool begin(std::size_t model) {
    if (!pool.at(model).may_begin()) return false;
    pool.begin(model, now);
    return true;
  }
  void end(std::size_t model) {
    pool.end(model, now);
    settle();
  }
  void pass(std::int64_t ms) {
    now += ms;
    settle();
  }
  State state(std::size_t model) const { return pool.at(model).state; }
  std::int64_t loaded() const { return pool.used_bytes(false); }

 private:
  static std::vector<std::string> names(const std::vector<std::int64_t>& bytes) {
    std::vector<std::string> list;
    for (std::size_t i = 0; i < bytes.size(); ++i) list.push_back(std::string(1, static_cast<char>('a' + i)));
    return list;
  }
  void act(const PoolAction& action) {
    if (action.kind == Kind::kStart && breaks.contains(action.model)) {
      pool.failed(action.model, {Code::kCorrupt, "broken"}, now);
      pool.ended(action.model, now);
    } else if (action.kind == Kind::kStart) {
      const bool on_device = devices.contains(action.model);
      pool.planned(action.model, bytes_[action.model], on_device, on_device ? device_sees : sees);
    } else if (action.kind == Kind::kGo) {
      pool.ready(action.model, now);
    } else {
      EXPECT_EQ(pool.at(action.model).answering, 0) << "a model that answers is never stopped";
      pool.ended(action.model, now);
    }
  }
  void check() const {
    for (const bool on_device : {false, true}) {
      if (const std::int64_t limit = pool.limit_bytes(on_device); limit > 0) {
        EXPECT_LE(pool.used_bytes(on_device), limit);
      }
    }
  }

  std::vector<std::int64_t> bytes_;

 public:
  ModelPool pool;
  std::int64_t now = 1'000'000;
  std::int64_t sees = 0, device_sees = 0;  // the limits that plans report
  std::set<std::size_t> devices;           // models that plan a GPU's memory
  std::map<std::size_t, bool> breaks;
};

PoolLimits memory(std::int64_t bytes) {
  PoolLimits limits;
  limits.memory_bytes = bytes;
  return limits;
}

TEST(ModelPool, AModelIsLoadedByItsFirstRequestAndStays) {
  Rig rig({10, 10}, memory(20));
  EXPECT_EQ(rig.state(0), State::kUnloaded);
  EXPECT_TRUE(rig.ask(0));
  EXPECT_EQ(rig.state(0), State::kReady);
  EXPECT_EQ(rig.state(1), State::kUnloaded);
  rig.end(0);
  rig.pass(3'600'000);
  EXPECT_EQ(rig.state(0), State::kReady) << "no idle time was set";
}

TEST(ModelPool, TheLeastRecentlyUsedIdleModelLeavesForAnother) {
  Rig rig({10, 10, 10}, memory(20));
  EXPECT_TRUE(rig.ask(0));
  rig.end(0);
  rig.pass(1);
  EXPECT_TRUE(rig.ask(1));
  rig.end(1);
  rig.pass(1);
  EXPECT_TRUE(rig.ask(0));  // now 1 is the least recently used
  rig.end(0);
  rig.pass(1);
  EXPECT_TRUE(rig.ask(2));
  EXPECT_EQ(rig.state(0), State::kReady);
  EXPECT_EQ(rig.state(1), State::kUnloaded);
}

TEST(ModelPool, NothingLeavesWhereThatWouldNotSuffice) {
  Rig rig({10, 10, 20}, memory(20));
  EXPECT_TRUE(rig.ask(0));  // answers
  EXPECT_TRUE(rig.ask(1));
  rig.end(1);
  EXPECT_FALSE(rig.ask(2));
  EXPECT_EQ(rig.state(1), State::kReady) << "0 answers, so that 2 would not fit without 1 either";
  rig.end(0);
  EXPECT_TRUE(rig.begin(2));
  EXPECT_EQ(rig.state(1), State::kUnloaded);
}

TEST(ModelPool, AModelThatAnswersKeepsItsMemoryForATurnThenTakesNoNewAnswers) {
  Rig rig({10, 10, 10}, memory(20));
  EXPECT_TRUE(rig.ask(0));
  rig.pass(1);
  EXPECT_TRUE(rig.ask(1));
  EXPECT_FALSE(rig.ask(2));
  EXPECT_TRUE(rig.ask(0)) << "within the turn";
  rig.pass(5'000);
  EXPECT_FALSE(rig.ask(0)) << "0 was loaded first, so it is the one that leaves";
  EXPECT_TRUE(rig.ask(1));
  rig.end(0);
  EXPECT_EQ(rig.state(0), State::kReady) << "one answer is left";
  rig.end(0);
  EXPECT_TRUE(rig.begin(2));
  EXPECT_EQ(rig.state(0), State::kPlanned) << "its waiting request is next";
  rig.pass(5'000);
  EXPECT_FALSE(rig.ask(1)) << "now it is the turn of 1 to leave";
  rig.end(1), rig.end(1);
  EXPECT_TRUE(rig.begin(0));
}

TEST(ModelPool, TheOneThatWaitsLongestIsNextEvenIfASmallerOneWouldFit) {
  Rig rig({15, 15, 5}, memory(20));
  EXPECT_TRUE(rig.ask(0));
  EXPECT_FALSE(rig.ask(1));
  rig.pass(1);
  EXPECT_FALSE(rig.ask(2));
  rig.end(0);
  EXPECT_TRUE(rig.begin(1));
  EXPECT_TRUE(rig.begin(2));
}

TEST(ModelPool, AnIdleModelIsUnloadedAfterItsTime) {
  PoolLimits limits = memory(20);
  limits.idle_ms = 60'000;
  Rig rig({10, 10}, limits);
  EXPECT_TRUE(rig.ask(0));
  rig.pass(100'000);
  EXPECT_EQ(rig.state(0), State::kReady) << "it answers";
  rig.end(0);
  rig.pass(59'999);
  EXPECT_EQ(rig.state(0), State::kReady);
  rig.pass(1);
  EXPECT_EQ(rig.state(0), State::kUnloaded);
  EXPECT_EQ(rig.loaded(), 0);
}

TEST(ModelPool, AModelLargerThanTheLimitFailsWithASentenceAndDisturbsNobody) {
  Rig rig({10, 30}, memory(20));
  EXPECT_TRUE(rig.ask(0));
  rig.end(0);
  EXPECT_FALSE(rig.ask(1));
  ASSERT_NE(rig.pool.recent_problem(1, rig.now), nullptr);
  EXPECT_EQ(rig.pool.recent_problem(1, rig.now)->code, Code::kExhausted);
  EXPECT_NE(rig.pool.recent_problem(1, rig.now)->message.find("--memory-mb"), std::string::npos);
  EXPECT_EQ(rig.state(0), State::kReady);
}

TEST(ModelPool, ALoadThatFailedIsRepeatedOnlyAfterAWhile) {
  Rig rig({10}, memory(20));
  rig.breaks[0] = true;
  EXPECT_FALSE(rig.ask(0));
  EXPECT_EQ(rig.pool.at(0).failures, 1);
  rig.pass(500);
  EXPECT_EQ(rig.pool.at(0).failures, 1);
  rig.breaks.clear();
  rig.pass(500);
  EXPECT_TRUE(rig.begin(0));
  EXPECT_FALSE(rig.pool.at(0).problem);
}

TEST(ModelPool, ACrashedModelIsStartedAgainAndTheOthersAreLeftAlone) {
  Rig rig({10, 10}, memory(20));
  EXPECT_TRUE(rig.ask(0));
  EXPECT_TRUE(rig.ask(1));
  rig.pool.ended(0, rig.now);
  rig.pool.end(0, rig.now);  // its request was told
  rig.settle();
  EXPECT_EQ(rig.state(0), State::kReady);
  EXPECT_EQ(rig.pool.at(0).crashes, 1);
  EXPECT_EQ(rig.pool.at(0).loads, 2);
  EXPECT_EQ(rig.pool.at(1).answering, 1);
  EXPECT_EQ(rig.pool.at(1).loads, 1);
}

TEST(ModelPool, ADoubtedModelTakesNoNewAnswersUntilItIsTrustedOrStartedAgain) {
  Rig rig({10}, memory(20));
  rig.pool.doubt(0);
  EXPECT_FALSE(rig.pool.at(0).doubted) << "it has no process";
  EXPECT_TRUE(rig.ask(0));
  rig.pool.doubt(0);
  EXPECT_FALSE(rig.ask(0));
  rig.pool.trust(0);
  EXPECT_TRUE(rig.begin(0)) << "only a connection broke";
  rig.pool.doubt(0);
  rig.pool.wait(0, rig.now);
  rig.pool.ended(0, rig.now);
  rig.settle();
  EXPECT_TRUE(rig.begin(0)) << "its new process answers";
  EXPECT_EQ(rig.pool.at(0).crashes, 1);
}

TEST(ModelPool, AToldUnloadWaitsForTheAnswers) {
  Rig rig({10}, memory(20));
  EXPECT_TRUE(rig.ask(0));
  rig.pool.unload(0);
  rig.settle();
  EXPECT_EQ(rig.state(0), State::kReady);
  EXPECT_FALSE(rig.ask(0)) << "no new answers";
  rig.end(0);
  EXPECT_TRUE(rig.begin(0)) << "a request that waits loads it again";
  EXPECT_EQ(rig.pool.at(0).loads, 2);
}

TEST(ModelPool, APlanThatNobodyWantsAnyMoreIsDropped) {
  Rig rig({15, 15}, memory(20));
  EXPECT_TRUE(rig.ask(0));
  EXPECT_FALSE(rig.ask(1));
  EXPECT_EQ(rig.state(1), State::kPlanned);
  rig.pool.leave(1);
  rig.settle();
  EXPECT_EQ(rig.state(1), State::kUnloaded);
}

TEST(ModelPool, WithoutALimitTheFirstPlanTellsIt) {
  Rig rig({10, 10, 10}, memory(0));
  rig.sees = 25;
  EXPECT_TRUE(rig.ask(0));
  rig.sees = 5;  // the first has taken the rest
  EXPECT_TRUE(rig.ask(1));
  EXPECT_EQ(rig.pool.limit_bytes(false), 25);
  EXPECT_FALSE(rig.ask(2));
}

TEST(ModelPool, AModelOnAGpuLeavesOnlyForOthersOnTheGpu) {
  Rig rig({10, 10, 10}, memory(0));
  rig.devices = {0, 1};
  rig.sees = 30, rig.device_sees = 15;
  for (const std::size_t model : {0U, 2U}) {
    EXPECT_TRUE(rig.ask(model));
    rig.end(model);
  }
  EXPECT_EQ(rig.pool.used_bytes(true), 10);
  EXPECT_EQ(rig.pool.used_bytes(false), 10);
  EXPECT_TRUE(rig.ask(1));
  EXPECT_EQ(rig.state(0), State::kUnloaded);
  EXPECT_EQ(rig.state(2), State::kReady) << "its memory would not help";
}

TEST(ModelPool, TheLimitOfEachMemoryIsThatOfItsFirstPlan) {
  Rig rig({10, 10}, memory(0));
  rig.devices = {1};
  rig.sees = 30, rig.device_sees = 8;
  EXPECT_TRUE(rig.ask(0));
  EXPECT_FALSE(rig.ask(1)) << "larger than the GPU, though the machine has room";
  ASSERT_NE(rig.pool.recent_problem(1, rig.now), nullptr);
  EXPECT_EQ(rig.pool.recent_problem(1, rig.now)->code, Code::kExhausted);
  EXPECT_EQ(rig.pool.limit_bytes(false), 30);
  EXPECT_EQ(rig.pool.limit_bytes(true), 8);
}

TEST(ModelPool, AGivenLimitHoldsForEachMemory) {
  Rig rig({10, 10, 10}, memory(12));
  rig.devices = {0, 1};
  EXPECT_TRUE(rig.ask(0));
  EXPECT_TRUE(rig.ask(2)) << "12 on the GPU and 12 in the machine";
  rig.end(0);
  EXPECT_TRUE(rig.ask(1));
  EXPECT_EQ(rig.state(0), State::kUnloaded);
}

/// Requests come and end at random: every one begins within some turns, whatever the others do.
TEST(ModelPool, EveryRequestBeginsWhateverTheOthersDo) {
  for (unsigned seed = 1; seed <= 8; ++seed) {
    std::mt19937 random(seed);
    std::vector<std::int64_t> bytes;
    for (unsigned i = 0; i < 2 + seed % 4; ++i) bytes.push_back(5 + static_cast<std::int64_t>(random() % 10));
    Rig rig(bytes, memory(20));
    std::vector<std::pair<std::size_t, std::int64_t>> waiting;    // model, since
    std::vector<std::pair<std::size_t, std::int64_t>> answering;  // model, until
    for (int step = 0; step < 600; ++step) {
      const std::size_t model = random() % bytes.size();
      if (waiting.size() + answering.size() < 12) {
        rig.pool.wait(model, rig.now);
        waiting.emplace_back(model, rig.now);
      }
      rig.pass(100);
      std::erase_if(answering, [&](const auto& one) {
        if (one.second > rig.now) return false;
        rig.end(one.first);
        return true;
      });
      std::erase_if(waiting, [&](const auto& one) {
        EXPECT_LE(rig.now - one.second, 60'000) << "seed " << seed;
        if (!rig.begin(one.first)) return false;
        answering.emplace_back(one.first, rig.now + static_cast<std::int64_t>(random() % 3'000));
        return true;
      });
      if (::testing::Test::HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace ft::server::model_pool_test
