#include "sched/calibration/calibration_cache.h"

#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <functional>
#include <limits>
#include <sstream>
#include <sys/resource.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/log.h"
#include "program/forwarding_backend.h"
#include "sched/calibration/calibrate.h"
#include "tests/toy_decoder.h"

namespace ft::test::calibration_cache_test {
namespace {

namespace fs = std::filesystem;

const std::string kKey(kFingerprintDigits, 'a');
constexpr std::int64_t kNow = 1'763'800'000;  // seconds since 1970

CostFigures figures() {
  CostFigures figures;
  for (std::size_t rows = 1; rows < figures.verify_ms.size(); ++rows) {
    figures.verify_ms[rows] = 1000 + static_cast<double>(rows) / 3;  // a toy round never takes a second
  }
  figures.draft_ms = 200.1;
  return figures;
}

RememberedCosts remembered() { return {figures(), {14, {{8, 5.25}, {14, 4.125}, {16, 4.5}}}}; }

/// `text` with the right checksum.
std::string repaired(std::string text) {
  text.resize(text.rfind("checksum "));
  return text + fmt::format("checksum {:016x}\n", checksum(std::as_bytes(std::span(text))));
}

TEST(CostFigures, AreWhatCanBeCosts) {
  EXPECT_TRUE(figures().plausible());
  const double nothing = std::numeric_limits<double>::quiet_NaN();
  const double endless = std::numeric_limits<double>::infinity();
  for (const double bad : {nothing, endless, -1.0, 0.0, 2 * CostFigures::kMaxMs}) {
    for (std::size_t rows = 1; rows < figures().verify_ms.size(); ++rows) {
      CostFigures wrong = figures();
      wrong.verify_ms[rows] = bad;
      EXPECT_FALSE(wrong.plausible()) << rows << ": " << bad;
    }
    CostFigures wrong = figures();
    wrong.draft_ms = bad;
    EXPECT_FALSE(wrong.plausible()) << bad;
  }
  CostFigures most = figures();
  most.draft_ms = CostFigures::kMaxTimes * most.verify_ms[1];
  EXPECT_TRUE(most.plausible());
  most.draft_ms *= 1.001;
  EXPECT_FALSE(most.plausible());
  CostFigures falling = figures();
  falling.verify_ms[5] = falling.verify_ms[4] - 0.01;
  EXPECT_FALSE(falling.plausible()) << "more rows never cost less";
}

TEST(CostFigures, AreFarFromOthersWhereOneIsInEitherDirection) {
  CostFigures other = figures();
  other.verify_ms[9] *= 1.49;
  EXPECT_FALSE(figures().far_from(other, 1.5));
  other.verify_ms[9] = 1.51 * figures().verify_ms[9];
  EXPECT_TRUE(figures().far_from(other, 1.5));
  EXPECT_TRUE(other.far_from(figures(), 1.5));
  other = figures();
  other.draft_ms /= 1.51;
  EXPECT_TRUE(figures().far_from(other, 1.5));
}

TEST(CostText, ComesBackBitForBit) {
  const std::string text = cost_text(remembered(), kKey, kNow);
  EXPECT_LE(text.size(), CalibrationCache::kMaxBytes);
  const Result<RememberedCosts> read = read_calibration(text, kKey, kNow);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->figures.verify_ms, figures().verify_ms);
  EXPECT_EQ(read->figures.draft_ms, figures().draft_ms);
  EXPECT_EQ(read->workers, remembered().workers);
  CostModel model;
  model.restore(read->figures);
  EXPECT_EQ(model.figures().verify_ms, figures().verify_ms) << "and a model takes them as they are";
  EXPECT_EQ(model.figures().draft_ms, figures().draft_ms);
}

TEST(CostText, TornOrChangedAnywhereIsRefused) {
  const std::string text = cost_text(remembered(), kKey, kNow);
  for (std::size_t at = 0; at < text.size(); ++at) {
    EXPECT_FALSE(read_calibration(text.substr(0, at), kKey, kNow).ok()) << "cut at " << at;
    std::string changed = text;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    EXPECT_FALSE(read_calibration(changed, kKey, kNow).ok()) << "changed at " << at;
  }
  EXPECT_FALSE(read_calibration(text + "\n", kKey, kNow).ok());
  EXPECT_FALSE(read_calibration(std::string(text.size(), '\0'), kKey, kNow).ok());
}

TEST(CostText, NumbersThatCannotBeCostsAreRefusedUnderARightChecksum) {
  const std::string text = cost_text(remembered(), kKey, kNow);
  EXPECT_TRUE(read_calibration(repaired(text), kKey, kNow).ok());
  for (const char* bad : {"nan", "inf", "-200.1", "0", "1e300", "200.10", "200,1", "", "0x1p3", " 200.1"}) {
    std::string changed = text;
    changed.replace(changed.find("200.1"), 5, bad);
    EXPECT_FALSE(read_calibration(repaired(changed), kKey, kNow).ok()) << bad;
  }
}

TEST(CostText, WorkersThatCannotHaveBeenChosenAreRefusedUnderARightChecksum) {
  const std::string text = cost_text(remembered(), kKey, kNow);
  for (const char* bad : {"workers 15 3\n", "workers 0 3\n", "workers -14 3\n", "workers 14 2\n",
                          "workers 14 4\n", "workers 14 99\n"}) {
    std::string changed = text;
    changed.replace(changed.find("workers 14 3\n"), 13, bad);
    EXPECT_FALSE(read_calibration(repaired(changed), kKey, kNow).ok()) << bad;
  }
  EXPECT_TRUE(read_calibration(cost_text({figures(), {}}, kKey, kNow), kKey, kNow).ok()) << "no choice";
}

TEST(CostText, CountsForItsKeyAndThirtyDays) {
  const std::string text = cost_text(remembered(), kKey, kNow);
  const std::int64_t most = std::chrono::seconds(CalibrationCache::kMaxAge).count();
  EXPECT_TRUE(read_calibration(text, kKey, kNow + most).ok());
  for (const std::int64_t now : {kNow + most + 1, kNow - 1}) {
    const Result<RememberedCosts> read = read_calibration(text, kKey, now);
    ASSERT_FALSE(read.ok()) << now;
    EXPECT_EQ(read.error().code, Code::kNotFound) << "old, not damaged";
  }
  const Result<RememberedCosts> foreign = read_calibration(text, std::string(kFingerprintDigits, 'b'), kNow);
  ASSERT_FALSE(foreign.ok());
  EXPECT_EQ(foreign.error().code, Code::kNotFound);
}

/// Counts the steps of its executables. They are the clock too: each takes kStepMs and some for each row.
class CountingBackend final : public ForwardingBackend {
 public:
  static constexpr double kStepMs = 10, kRowMs = 0.5;

  CountingBackend(int& steps, double& now_ms)
      : ForwardingBackend(make_ref_backend()), steps_(steps), now_ms_(now_ms) {}
  Result<std::unique_ptr<Executable>> compile(const Program& program,
                                              const CompileOptions& options) override {
    FT_ASSIGN(std::unique_ptr<Executable> executable, inner().compile(program, options));
    return std::unique_ptr<Executable>(std::make_unique<Counted>(std::move(executable), steps_, now_ms_));
  }

 private:
  class Counted final : public ForwardingExecutable {
   public:
    Counted(std::unique_ptr<Executable> executable, int& steps, double& now_ms)
        : ForwardingExecutable(std::move(executable)), steps_(steps), now_ms_(now_ms) {}
    void submit(const StepArgs& args, State& state) override {
      ++steps_;
      now_ms_ += kStepMs + kRowMs * static_cast<double>(args.logit_rows.size());
      inner().submit(args, state);
    }

   private:
    int& steps_;
    double& now_ms_;
  };

  int& steps_;
  double& now_ms_;
};

class CalibrationCacheTest : public testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(folder_);
    set_log_level(LogLevel::kOff);  // the tests check its log in other ways
  }
  void TearDown() override {
    set_log_level(LogLevel::kInfo);
    fs::remove_all(folder_);
  }

  struct Start {
    std::string source;
    int steps = 0;
    CostFigures figures;
  };
  /// A start with this path and key. `after` sees the file and the cost model at its end.
  Start start(const std::string& path, const std::string& key = kKey,
              const std::function<void(const CalibrationCache&, CostModel&)>& after = {}) {
    Start seen;
    double now_ms = 0;
    int readings = 0;
    ToyDecoder decoder(std::make_unique<CountingBackend>(seen.steps, now_ms), 1);
    CalibrationCache file({path, key, [&, this] { return now_ms + lie_(readings++); }});
    file.learn(*decoder);
    seen.source = file.source();
    seen.figures = decoder->costs().figures();
    if (after) after(file, decoder->costs());
    return seen;
  }
  Start start() { return start(path_); }

  std::string text() const {
    std::ostringstream text;
    text << std::ifstream(path_).rdbuf();
    return text.str();
  }
  void write(const std::string& text) const {
    fs::create_directories(folder_);
    std::ofstream(path_, std::ios::trunc) << text;
  }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

  /// Added to the clock at its n-th reading.
  std::function<double(int)> lie_ = [](int /*reading*/) { return 0; };
  const fs::path folder_ = fs::path(testing::TempDir()) / ("calibration_" + std::to_string(::getpid()));
  const std::string path_ = (folder_ / "toy.costs").string();
  const std::int64_t now_s_ =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
          .count();
};

TEST_F(CalibrationCacheTest, TheSecondStartRunsNoStep) {
  const Start first = start();
  EXPECT_EQ(first.source, "measured");
  EXPECT_GT(first.steps, 0);
  const Start second = start();
  EXPECT_EQ(second.source, "remembered");
  EXPECT_EQ(second.steps, 0);
  EXPECT_EQ(second.figures.verify_ms, first.figures.verify_ms);
  EXPECT_EQ(second.figures.draft_ms, first.figures.draft_ms);
}

/// The time between two readings varies, as when other programs take turns.
TEST_F(CalibrationCacheTest, AClockThatLiesIsNotedAndNothingOfItIsKept) {
  const Start honest = start();
  fs::remove_all(folder_);
  double late_ms = 0;
  lie_ = [&late_ms](int reading) { return late_ms += 40.0 * (1 + reading % 7) * (1 + reading % 11); };
  for (int i = 0; i < 2; ++i) {
    const Start lied = start();
    EXPECT_EQ(lied.source, "disturbed");
    EXPECT_GT(lied.steps, 0);
    EXPECT_FALSE(fs::exists(path_)) << "the next start measures again";
    CostModel model;
    model.restore(lied.figures);
    EXPECT_LT(model.round(1, false), 1.5) << "a draft may still pay";
  }
  lie_ = [](int) { return 0; };
  EXPECT_EQ(start().source, "measured");
  const Start kept = start();
  EXPECT_EQ(kept.source, "remembered");
  EXPECT_EQ(kept.figures.verify_ms, honest.figures.verify_ms);
}

TEST_F(CalibrationCacheTest, WithoutAPathEveryStartMeasures) {
  for (int i = 0; i < 2; ++i) {
    const Start seen = start("");
    EXPECT_EQ(seen.source, "measured");
    EXPECT_GT(seen.steps, 0);
  }
}

TEST_F(CalibrationCacheTest, WhatIsTornStaleOrForeignIsMeasuredAnewAndReplaced) {
  const std::string good = cost_text(remembered(), kKey, now_s_);
  write(good);
  ASSERT_EQ(start().source, "remembered");
  std::string absurd = good;
  absurd.replace(absurd.find("200.1"), 5, "nan");
  const std::string other(kFingerprintDigits, 'b');
  const std::int64_t month = std::chrono::seconds(CalibrationCache::kMaxAge).count();
  for (const std::string& bad :
       {std::string(), good.substr(0, good.size() / 2), repaired(absurd), "\x7f" + good.substr(1),
        good + std::string(CalibrationCache::kMaxBytes + 1 - good.size(), ' '),
        cost_text(remembered(), other, now_s_), cost_text(remembered(), kKey, now_s_ - month - 60),
        cost_text(remembered(), kKey, now_s_ + 3600)}) {
    write(bad);
    const Start seen = start();
    EXPECT_EQ(seen.source, "measured") << bad;
    EXPECT_GT(seen.steps, 0);
    EXPECT_NE(text(), bad);
    EXPECT_EQ(start().source, "remembered") << "it was replaced";
    EXPECT_EQ(files(), 1U) << "and no other file was left";
  }
}

TEST_F(CalibrationCacheTest, WhereNothingCanBeKeptCostsAreMeasured) {
  write("a file");
  for (const std::string& place : {path_ + "/toy.costs", std::string("/proc/foretoken/toy.costs")}) {
    EXPECT_EQ(start(place).source, "measured") << place;
    EXPECT_EQ(start(place).source, "measured") << place;
  }
  const std::string folder = (folder_ / "one.costs").string();
  fs::create_directories(folder + "/in");
  EXPECT_EQ(start(folder).source, "measured") << "a folder of that name";
  EXPECT_EQ(files(), 2U) << "no part of a file is left";
}

TEST_F(CalibrationCacheTest, AFullDiskCostsAMeasurementAndNothingElse) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &none), 0);
  const std::string source = start().source;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(source, "measured");
  EXPECT_EQ(files(), 0U);
}

TEST_F(CalibrationCacheTest, ARunWhoseRoundsCostFarMoreOrLessMakesTheNextStartMeasure) {
  for (const double factor : {3.0, 1 / 3.0, 1.3}) {
    write(cost_text(remembered(), kKey, now_s_));
    const Start run = start(path_, kKey, [&](const CalibrationCache& file, CostModel& costs) {
      const double usual = costs.verify(1);
      costs.observe(1, 0, factor > 1 ? 4 * usual : usual / 4);  // one round is not evidence
      for (int i = 0; i < 60; ++i) costs.observe(1, 0, factor * usual);
      file.discard_if_far(costs);
    });
    EXPECT_EQ(run.source, "remembered");
    EXPECT_EQ(start().source, factor == 1.3 ? "remembered" : "measured") << factor;
  }
}

TEST_F(CalibrationCacheTest, AShortRunOfSlowRoundsKeepsTheFile) {
  write(cost_text(remembered(), kKey, now_s_));
  start(path_, kKey, [](const CalibrationCache& file, CostModel& costs) {
    for (int i = 0; i < 3; ++i) costs.observe(1, 0, 4 * costs.verify(1));
    file.discard_if_far(costs);
  });
  EXPECT_EQ(start().source, "remembered");
}

/// A clock that moves only while steps run. The first steps of an executable take long, as they do where
/// memory is touched for the first time.
class ColdBackend final : public ForwardingBackend {
 public:
  static constexpr double kStepMs = 80, kColdMs = 900;

  explicit ColdBackend(double& now_ms) : ForwardingBackend(make_ref_backend()), now_ms_(now_ms) {}
  Result<std::unique_ptr<Executable>> compile(const Program& program,
                                              const CompileOptions& options) override {
    FT_ASSIGN(std::unique_ptr<Executable> executable, inner().compile(program, options));
    return std::unique_ptr<Executable>(std::make_unique<Cold>(std::move(executable), now_ms_));
  }

 private:
  class Cold final : public ForwardingExecutable {
   public:
    Cold(std::unique_ptr<Executable> executable, double& now_ms)
        : ForwardingExecutable(std::move(executable)), now_ms_(now_ms) {}
    void submit(const StepArgs& args, State& state) override {
      constexpr int kColdSteps = 2;
      now_ms_ += steps_++ < kColdSteps ? kColdMs : kStepMs;
      inner().submit(args, state);
    }

   private:
    double& now_ms_;
    int steps_ = 0;
  };

  double& now_ms_;
};

TEST(Calibration, DoesNotMeasureTheFirstRoundOfADrafter) {
  double now_ms = 0;
  ToyDecoder decoder(std::make_unique<ColdBackend>(now_ms), 1);
  const Calibrated calibrated = calibrate(*decoder, [&now_ms] { return now_ms; });
  EXPECT_TRUE(calibrated.measured);
  const CostFigures figures = decoder->costs().figures();
  EXPECT_EQ(figures.verify_ms[1], ColdBackend::kStepMs);
  EXPECT_EQ(figures.verify_ms[4], ColdBackend::kStepMs);
  EXPECT_LE(figures.draft_ms, 2 * ColdBackend::kStepMs);
}

/// A clock that moves only while steps run. From the first step of a drafter on, kSlowSteps steps take
/// `factor` times as long as all others.
class SlowMomentBackend final : public ForwardingBackend {
 public:
  static constexpr double kStepMs = 10;
  static constexpr int kSlowSteps = 20;

  SlowMomentBackend(double& now_ms, double factor)
      : ForwardingBackend(make_ref_backend()), now_ms_(now_ms), factor_(factor) {}
  Result<std::unique_ptr<Executable>> compile(const Program& program,
                                              const CompileOptions& options) override {
    FT_ASSIGN(std::unique_ptr<Executable> executable, inner().compile(program, options));
    return std::unique_ptr<Executable>(
        std::make_unique<Timed>(std::move(executable), *this, compiled_++ == 0));
  }

 private:
  class Timed final : public ForwardingExecutable {
   public:
    Timed(std::unique_ptr<Executable> executable, SlowMomentBackend& backend, bool target)
        : ForwardingExecutable(std::move(executable)), backend_(backend), target_(target) {}
    void submit(const StepArgs& args, State& state) override {
      backend_.pass(target_);
      inner().submit(args, state);
    }

   private:
    SlowMomentBackend& backend_;
    const bool target_;
  };

  void pass(bool target) {
    const bool slow = (steps_ > 0 || !target) && ++steps_ <= kSlowSteps;
    now_ms_ += slow ? factor_ * kStepMs : kStepMs;
  }

  double& now_ms_;
  const double factor_;
  int compiled_ = 0, steps_ = 0;  // steps since the first one of a drafter
};

TEST(Calibration, MeasuresADrafterAgainAfterABadMomentWhoseSamplesAgree) {
  const auto draft_ms = [](double factor) {
    double now_ms = 0;
    ToyDecoder decoder(std::make_unique<SlowMomentBackend>(now_ms, factor), 1);
    const Calibrated calibrated = calibrate(*decoder, [&now_ms] { return now_ms; });
    EXPECT_TRUE(calibrated.measured && calibrated.steady);
    return decoder->costs().figures().draft_ms;
  };
  EXPECT_EQ(draft_ms(6), draft_ms(1));
}

/// A clock that lies: rounds of more rows and draft passes seem to take many times their real time.
TEST(BelievedCosts, OfABusyMachineDoNotKeepDraftsAway) {
  CostFigures busy = figures();
  for (std::size_t rows = 2; rows < busy.verify_ms.size(); ++rows)
    busy.verify_ms[rows] = 3 * busy.verify_ms[1] * static_cast<double>(rows);
  busy.draft_ms = 4 * busy.verify_ms[1];
  busy.draft_weight.fill(20);
  const CostFigures believed = believed_of(busy);
  EXPECT_TRUE(believed.plausible());
  CostModel model;
  model.restore(believed);
  EXPECT_LT(model.round(1, false), 1.5) << "a draft may pay again";
  EXPECT_LT(model.round(8, false), 4);
  EXPECT_EQ(believed.verify_ms[1], busy.verify_ms[1]);
}

TEST(BelievedCosts, KeepWhatIsCheaperThanTheGuess) {
  CostFigures cheap = figures();
  for (std::size_t rows = 2; rows < cheap.verify_ms.size(); ++rows)
    cheap.verify_ms[rows] = cheap.verify_ms[1] * (1 + 0.01 * static_cast<double>(rows));
  cheap.draft_ms = 0.05 * cheap.verify_ms[1];
  EXPECT_EQ(believed_of(cheap).verify_ms, cheap.verify_ms);
  EXPECT_EQ(believed_of(cheap).draft_ms, cheap.draft_ms);
}

}  // namespace
}  // namespace ft::test::calibration_cache_test
