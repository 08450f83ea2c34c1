// The engine with a clock that lies. Each step takes a fixed time, and nothing else takes any; the clock
// shows a distorted time. Times choose depths and chunks of prompts, so tokens must be the same under every
// lie, and the true time of an answer must stay near that under an honest clock.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <mutex>
#include <random>
#include <unistd.h>

#include "base/log.h"
#include "program/forwarding_backend.h"
#include "tests/small_engine.h"

namespace ft::test::lying_clock_test {
namespace {

/// A step of `rows` rows, `drafted` if a round with drafts has it.
struct TimedStep {
  double ms = 0;
  int rows = 0;
  bool drafted = false;
};

using Lie = std::function<double(const TimedStep& step)>;  // time of the step on the clock, in ms

double honest(const TimedStep& step) { return step.ms; }

class LyingClock {
 public:
  void tell(Lie lie) {
    const std::lock_guard lock(mutex_);
    lie_ = std::move(lie);
  }
  void pass(const TimedStep& step) {
    const std::lock_guard lock(mutex_);
    shown_ms_ += lie_(step), true_ms_ += step.ms;
    ++steps_;
  }
  double shown_ms() const {
    const std::lock_guard lock(mutex_);
    return shown_ms_;
  }
  double true_ms() const {
    const std::lock_guard lock(mutex_);
    return true_ms_;
  }
  int steps() const {
    const std::lock_guard lock(mutex_);
    return steps_;
  }

 private:
  mutable std::mutex mutex_;
  Lie lie_ = honest;
  double shown_ms_ = 1000, true_ms_ = 0;
  int steps_ = 0;
};

/// Its steps move the clock. It compiles the target first.
class ClockedBackend final : public ForwardingBackend {
 public:
  static constexpr double kPlainMs = 10, kRowMs = 0.5, kPromptRowMs = 0.1, kDraftMs = 1;

  ClockedBackend(std::unique_ptr<Backend> inner, LyingClock& clock)
      : ForwardingBackend(std::move(inner)), clock_(clock) {}
  Result<std::unique_ptr<Executable>> compile(const Program& program,
                                              const CompileOptions& options) override {
    FT_ASSIGN(std::unique_ptr<Executable> executable, inner().compile(program, options));
    return std::unique_ptr<Executable>(
        std::make_unique<Clocked>(std::move(executable), clock_, compiled_++ == 0));
  }

 private:
  class Clocked final : public ForwardingExecutable {
   public:
    Clocked(std::unique_ptr<Executable> executable, LyingClock& clock, bool target)
        : ForwardingExecutable(std::move(executable)), clock_(clock), target_(target) {}
    void submit(const StepArgs& args, State& state) override {
      const auto rows = static_cast<int>(args.tokens.size());
      const auto verified = static_cast<int>(args.logit_rows.size());
      const bool drafted = !target_ || verified > static_cast<int>(args.segments.size());
      const double ms = target_ ? kPlainMs + kRowMs * verified + kPromptRowMs * (rows - verified) : kDraftMs;
      clock_.pass({ms, rows, drafted});
      inner().submit(args, state);
    }

   private:
    LyingClock& clock_;
    const bool target_;
  };

  LyingClock& clock_;
  int compiled_ = 0;
};

struct NamedLie {
  const char* name;
  std::function<Lie()> make;  // each has a separate state
};

/// 30 steps of a machine that others hold up, 60 of a quiet one, and so on.
Lie busy_periods() {
  return [random = std::mt19937(5), steps = 0](const TimedStep& step) mutable {
    return ++steps % 90 < 30 ? step.ms * (2 + random() % 40) : step.ms;
  };
}

/// About one step in `every` shows `more` ms more.
Lie leaps(unsigned every, double more) {
  return [random = std::mt19937(7), every, more](const TimedStep& step) mutable {
    return random() % every == 0 ? step.ms + more : step.ms;
  };
}

Lie drafted_steps(double factor) {
  return [factor](const TimedStep& step) { return step.drafted ? factor * step.ms : step.ms; };
}

Lie noise() {
  return [random = std::mt19937(11)](const TimedStep& step) mutable {
    return step.ms * std::exp((static_cast<double>(random() % 2000) - 1000) / 200);
  };
}

const NamedLie kLies[] = {
    {"busy periods", busy_periods},
    {"an hour's jumps", [] { return leaps(20, 3.6e6); }},
    {"backwards", [] { return leaps(8, -5000); }},
    {"it stops", [] { return [](const TimedStep&) { return 0.0; }; }},
    {"drafts seem dear", [] { return drafted_steps(12); }},
    {"drafts seem free", [] { return drafted_steps(0.02); }},
    {"noise", noise},
};

class LyingClockTest : public EngineTest {
 protected:
  static constexpr int kTokens = 64;

  void SetUp() override {
    set_log_level(LogLevel::kOff);  // calibration is checked elsewhere
    std::filesystem::remove_all(folder_);
    load();
  }
  void TearDown() override {
    engine_.reset();
    std::filesystem::remove_all(folder_);
    set_log_level(LogLevel::kInfo);
  }

  void start_under(Lie lie, const std::string& calibration = {}) {
    EngineOptions with_clock = options();
    with_clock.unread_events = 1000;  // a jump is not a slow reader
    with_clock.now_ms = [this] { return clock_.shown_ms(); };
    with_clock.costs = {calibration, std::string(32, 'a')};
    engine_.reset();
    backend_ = std::make_unique<ClockedBackend>(std::move(*make_backend({.threads = 1})), clock_);
    clock_.tell(std::move(lie));
    start(with_clock);
  }

  std::vector<RequestFields> requests(DrafterKind kind) {
    std::vector<RequestFields> list;
    for (const char* prompt :
         {"Write a Python function that returns the larger of two numbers.", "Count to five in JSON."}) {
      for (const float temperature : {0.0F, 0.8F}) {
        list.push_back(fields(prompt, kind, kTokens));
        list.back().slot.eos.clear();
        list.back().slot.sampler.temperature = temperature;
        list.back().slot.sampler.seed = list.size();
      }
    }
    return list;
  }

  struct Timed {
    Collected answer;
    double true_ms = 0;
  };
  Timed timed(RequestFields request) {
    const double begin = clock_.true_ms();
    Timed timed{answer(std::move(request))};
    timed.true_ms = clock_.true_ms() - begin;
    return timed;
  }
  /// All requests, one after the other.
  double true_ms(DrafterKind kind) {
    double sum = 0;
    for (RequestFields& request : requests(kind)) sum += timed(std::move(request)).true_ms;
    return sum;
  }

  LyingClock clock_;
  const std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) / ("lying_clock" + std::to_string(::getpid()));
  const std::string file_ = (folder_ / "costs").string();
};

TEST_F(LyingClockTest, TheTokensAreThoseOfPlainDecodingUnderEveryLie) {
  start_under(honest);
  std::vector<std::vector<std::int32_t>> plain;
  for (RequestFields& request : requests(DrafterKind::kNone))
    plain.push_back(answer(std::move(request)).tokens);
  for (const NamedLie& lie : kLies) {
    SCOPED_TRACE(lie.name);
    start_under(lie.make());
    std::vector<Ticket> tickets;
    for (RequestFields& request : requests(DrafterKind::kAuto)) tickets.push_back(submit(std::move(request)));
    std::int64_t drafted = 0;
    for (std::size_t i = 0; i < tickets.size(); ++i) {
      const Collected found = collect(tickets[i]);
      EXPECT_EQ(found.tokens, plain[i]) << i;
      EXPECT_EQ(found.finish, Finish::kLength) << found.error.message;
      drafted += found.report.speculation.drafted;
    }
    EXPECT_GT(drafted, 0);
    tickets.clear();
    engine_.reset();
  }
}

/// A prompt is cut into chunks by the measured cost of its rows.
TEST_F(LyingClockTest, AJumpInOnePromptDoesNotCutTheNextOnesIntoSmallPieces) {
  const auto steps_of = [&](int number) {
    RequestFields request = fields("", DrafterKind::kNone, 1);
    request.prompt.assign(450, 20 + number);
    const int before = clock_.steps();
    EXPECT_EQ(answer(std::move(request)).tokens.size(), 1U);
    return clock_.steps() - before;
  };
  for (const double ms : {3.6e6, -3.6e6}) {
    start_under(honest);
    steps_of(0);
    const int usual = steps_of(1);
    clock_.tell([ms](const TimedStep& step) { return step.ms + ms; });
    steps_of(2);
    clock_.tell(honest);
    EXPECT_LE(steps_of(3), 2 * usual) << ms;
  }
}

/// In true time, an answer under a lie takes at most 2% longer than by plain decoding. Rounds of an honest
/// clock correct the costs, so that drafts pay again.
TEST_F(LyingClockTest, HarmIsBoundedUnderEveryLieAndEndsWithIt) {
  start_under(honest);
  const double plain = true_ms(DrafterKind::kNone);
  EXPECT_LT(true_ms(DrafterKind::kAuto), 0.5 * plain);
  for (const NamedLie& lie : kLies) {
    SCOPED_TRACE(lie.name);
    start_under(lie.make());
    for (int i = 0; i < 2; ++i) EXPECT_LE(true_ms(DrafterKind::kAuto), 1.02 * plain);
    clock_.tell(honest);
    true_ms(DrafterKind::kAuto);
    EXPECT_LE(true_ms(DrafterKind::kAuto), 0.8 * plain);
  }
}

TEST_F(LyingClockTest, DraftsThatAreWrongAndSeemCheapCostLittle) {
  start_under(honest);
  RequestFields request = requests(DrafterKind::kNone).front();
  const Timed plain = timed(request);
  std::vector<std::int32_t> recorded = request.prompt;
  recorded.insert(recorded.end(), plain.answer.tokens.begin(), plain.answer.tokens.end());
  request.drafter = SyntheticDrafter::kKind;
  for (const NamedLie& lie : kLies) {
    SCOPED_TRACE(lie.name);
    start_under(lie.make());
    engine_->force(std::vector<double>(kMaxDraftTokens, 0.02), 3, recorded);
    for (int i = 0; i < 2; ++i) {
      const Timed drafted = timed(request);
      EXPECT_EQ(drafted.answer.tokens, plain.answer.tokens);
      EXPECT_LE(drafted.true_ms, 1.2 * plain.true_ms);
    }
  }
}

TEST_F(LyingClockTest, ADisturbedCalibrationIsNotRemembered) {
  start_under(busy_periods(), file_);
  EXPECT_STREQ(engine_->cost_source(), "disturbed");
  true_ms(DrafterKind::kAuto);
  engine_.reset();
  EXPECT_FALSE(std::filesystem::exists(file_));
  start_under(honest, file_);
  EXPECT_STREQ(engine_->cost_source(), "measured");
  start_under(honest, file_);
  EXPECT_STREQ(engine_->cost_source(), "remembered");
}

/// Such a calibration cannot be recognised as wrong: all its samples agree.
TEST_F(LyingClockTest, AfterASteadyLieADepthThatPaysIsTriedSoonAndTheFileGoes) {
  for (const double factor : {3, 12}) {
    SCOPED_TRACE(factor);
    start_under(drafted_steps(factor), file_);
    EXPECT_STREQ(engine_->cost_source(), "measured");
    clock_.tell(honest);
    std::int64_t rounds = 0, drafted = 0;
    while (drafted == 0 && rounds < 512) {
      const SpeculationReport report = answer(requests(DrafterKind::kAuto).front()).report.speculation;
      rounds += report.rounds, drafted += report.drafted;
    }
    EXPECT_LE(rounds, factor < 4 ? kTokens : 4 * kTokens);
    for (int i = 0; i < 2; ++i) true_ms(DrafterKind::kAuto);
    const SpeculationReport last = answer(requests(DrafterKind::kAuto).front()).report.speculation;
    EXPECT_LT(last.rounds, last.emitted * 2 / 3);
    engine_.reset();
    EXPECT_FALSE(std::filesystem::exists(file_)) << "the next start measures again";
  }
}

}  // namespace
}  // namespace ft::test::lying_clock_test
