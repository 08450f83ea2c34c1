// Compares timelines with a model that remembers all writes: every block holds its tokens, every slot a
// recurrent state that depends on all tokens in order, and drafts go to tapes as in a backend. With a
// window, each block also holds the rows of the window, which release_sliding_window() makes unreadable.
#include "timeline/timeline.h"

#include <algorithm>
#include <array>
#include <gtest/gtest.h>
#include <map>
#include <memory>
#include <random>
#include <set>

#include "tests/storm_seed.h"

namespace ft::timeline_test {
namespace {

class Machine final : public State {
 public:
  explicit Machine(const StateOptions& options, int window = 0)
      : window_(window),
        blocks_(static_cast<std::size_t>(options.blocks)),
        seen_(blocks_.size()),
        slots_(static_cast<std::size_t>(options.slots)) {}

  void copy_block(std::int32_t from, std::int32_t to) override {
    block(to) = block(from), seen(to) = seen(from), ++block_copies;
  }
  void copy_slot(std::int32_t from, std::int32_t to) override { slot(to) = slot(from), ++slot_copies; }
  std::int64_t bytes() const override { return 0; }
  std::int64_t block_bytes() const override { return sizeof(Block); }
  /// With a window there is no recurrent state, so that forks may begin further back.
  std::int64_t slot_bytes() const override { return window_ > 0 ? 0 : sizeof(Recurrent); }
  SlidingWindowPart sliding_window_part() const override {
    return window_ > 0 ? SlidingWindowPart{window_, sizeof(Block)} : SlidingWindowPart{};
  }
  void release_sliding_window(std::int32_t number) override {
    EXPECT_NE(seen(number), unreadable()) << "released twice";
    seen(number) = unreadable(), ++released;
  }
  void read_block(std::int32_t, std::span<std::byte>) const override { FAIL() << "nobody asked"; }
  void write_block(std::int32_t, std::span<const std::byte>) override { FAIL() << "nobody asked"; }
  void read_slot(std::int32_t, std::span<std::byte>) const override { FAIL() << "nobody asked"; }
  void write_slot(std::int32_t, std::span<const std::byte>) override { FAIL() << "nobody asked"; }

  /// A step as a backend runs it: replay the kept rows of the tape, apply the confirmed rows, leave the
  /// drafts on the other tape.
  void run(const Segment& segment, const std::vector<int>& tokens) {
    const SequenceView& at = segment.sequence;
    for (int i = 0; i < segment.rows; ++i) {
      const std::int64_t p = segment.position + i;
      block(at.blocks[static_cast<std::size_t>(p / kBlockRows)])[static_cast<std::size_t>(p % kBlockRows)] =
          tokens[static_cast<std::size_t>(i)];
      seen(at.blocks[static_cast<std::size_t>(p / kBlockRows)])[static_cast<std::size_t>(p % kBlockRows)] =
          tokens[static_cast<std::size_t>(i)];
    }
    Recurrent& state = slot(at.slot);
    if (segment.position == 0) state = {};  // a new sequence: backends begin with zeros
    for (int i = 0; i < at.replay; ++i)
      state.settle(state.tape[static_cast<std::size_t>(at.tape)][static_cast<std::size_t>(i)]);
    for (int i = 0; i < segment.confirmed; ++i) state.settle(tokens[static_cast<std::size_t>(i)]);
    for (int i = segment.confirmed; i < segment.rows; ++i) {
      state.tape[static_cast<std::size_t>(1 - at.tape)][static_cast<std::size_t>(i - segment.confirmed)] =
          tokens[static_cast<std::size_t>(i)];
    }
  }

  /// The tokens of the committed rows and the recurrent state after them, as a step with these views would
  /// see them.
  std::vector<int> read(const SequenceView& at, std::int64_t length) {
    std::vector<int> tokens;
    for (std::int64_t p = 0; p < length; ++p) {
      tokens.push_back(block(
          at.blocks[static_cast<std::size_t>(p / kBlockRows)])[static_cast<std::size_t>(p % kBlockRows)]);
    }
    return tokens;
  }
  /// The tokens that a row at `length` sees through its window.
  std::vector<int> read_window(const SequenceView& at, std::int64_t length) {
    std::vector<int> tokens;
    for (std::int64_t p = std::max<std::int64_t>(0, length + 1 - window_); p < length; ++p) {
      tokens.push_back(seen(
          at.blocks[static_cast<std::size_t>(p / kBlockRows)])[static_cast<std::size_t>(p % kBlockRows)]);
    }
    return tokens;
  }
  /// Blocks whose windowed part can be read.
  int readable() const {
    return static_cast<int>(
        std::ranges::count_if(seen_, [](const Block& one) { return one != unreadable(); }));
  }
  int window() const { return window_; }
  std::uint64_t state_of(const SequenceView& at) {
    Recurrent state = slot(at.slot);
    for (int i = 0; i < at.replay; ++i)
      state.settle(state.tape[static_cast<std::size_t>(at.tape)][static_cast<std::size_t>(i)]);
    return state.sum;
  }
  static std::uint64_t state_after(const std::vector<int>& tokens) {
    Recurrent state;
    for (const int token : tokens) state.settle(token);
    return state.sum;
  }

  int block_copies = 0, slot_copies = 0, released = 0;

 private:
  struct Recurrent {
    std::uint64_t sum = 0;
    std::array<std::array<int, kMaxTapeRows>, 2> tape{};
    void settle(int token) { sum = sum * 1099511628211ULL + static_cast<std::uint64_t>(token) + 1; }
  };
  using Block = std::array<int, kBlockRows>;
  static Block unreadable() {
    Block none;
    none.fill(-1);
    return none;
  }
  Block& seen(std::int32_t id) { return seen_.at(static_cast<std::size_t>(id)); }
  Block& block(std::int32_t id) { return blocks_.at(static_cast<std::size_t>(id)); }
  Recurrent& slot(std::int32_t id) { return slots_.at(static_cast<std::size_t>(id)); }

  int window_;
  std::vector<Block> blocks_, seen_;
  std::vector<Recurrent> slots_;
};

/// One timeline with its expected contents.
struct Known {
  std::optional<Timeline> timeline;
  std::vector<int> tokens;
  std::vector<std::int32_t> blocks;
};

class Schedule {
 public:
  Schedule(unsigned seed, const StateOptions& options, int window = 0)
      : options_(options),
        machine_(options, window),
        pool_(machine_, options),
        random_(seed + test::storm_seed()) {}

  void run(int steps) {
    for (int i = 0; i < steps; ++i) {
      const unsigned what = random_() % 16;
      if (known_.empty() || what == 0) {
        open();
      } else if (what < 10) {
        grow(pick());
      } else if (what == 10) {
        leave_untouched(pick());
      } else if (what == 11) {
        lose(pick());
      } else if (what < 14) {
        fork(pick());
      } else if (what == 14) {
        close(pick());
      } else {
        move(pick());
      }
      if (testing::Test::HasFatalFailure()) return;
      expect_accounts();
    }
    known_.clear();
    EXPECT_EQ(pool_.free_blocks(), options_.blocks);
    EXPECT_EQ(pool_.free_slots(), options_.slots);
  }
  int exhausted = 0, lost = 0, shared = 0, shortened = 0;
  int released() const { return machine_.released; }

 private:
  std::size_t pick() { return random_() % known_.size(); }

  void open() {
    const int before = pool_.free_slots();
    auto timeline = Timeline::open(pool_);
    ASSERT_EQ(timeline.ok(), before > 0);
    if (!timeline.ok()) {
      EXPECT_EQ(timeline.error().code, Code::kExhausted);
      EXPECT_NE(timeline.error().message.find("no free slot"), std::string::npos);
      ++exhausted;
      return;
    }
    known_.emplace_back();
    known_.back().timeline.emplace(std::move(*timeline));
  }

  /// begin() at random, checked against what the pool can give; null if it was refused.
  std::optional<Txn> begin(Known& known, int rows, int confirmed) {
    const auto length = static_cast<int>(known.tokens.size());
    const int missing = (length + rows + kBlockRows - 1) / kBlockRows - static_cast<int>(known.blocks.size());
    const bool fits = missing <= pool_.free_blocks();
    const int free = pool_.free_blocks();
    auto txn = known.timeline->begin(rows, confirmed);
    EXPECT_EQ(txn.ok(), fits);
    if (txn.ok()) {
      reserve(known, rows);
      return std::optional<Txn>(std::move(*txn));
    }
    EXPECT_EQ(txn.error().code, Code::kExhausted);
    EXPECT_NE(txn.error().message.find("key/value cache is full"), std::string::npos);
    EXPECT_EQ(pool_.free_blocks(), free) << "a refused begin takes nothing";
    ++exhausted;
    return std::nullopt;
  }

  void grow(std::size_t which) {
    Known& known = known_[which];
    const int drafts = static_cast<int>(random_() % (kMaxTapeRows + 1));
    const int confirmed = static_cast<int>(random_() % (random_() % 4 == 0 ? 40 : 3));
    const int rows = std::max(1, confirmed + drafts);
    const int sure = std::min(confirmed, rows);
    std::optional<Txn> txn = begin(known, rows, sure);
    if (!txn) return;
    const Segment segment = txn->segment();
    ASSERT_EQ(segment.position, static_cast<std::int64_t>(known.tokens.size()));
    ASSERT_EQ(segment.rows, rows);
    ASSERT_EQ(segment.confirmed, sure);
    ASSERT_EQ(machine_.read(segment.sequence, segment.position), known.tokens) << "the past has changed";
    if (machine_.window() > 0) {
      const std::int64_t first = std::max<std::int64_t>(0, segment.position + 1 - machine_.window());
      ASSERT_EQ(machine_.read_window(segment.sequence, segment.position),
                std::vector<int>(known.tokens.begin() + first, known.tokens.end()))
          << "a window has changed";
    } else if (segment.position > 0) {
      ASSERT_EQ(machine_.state_of(segment.sequence), Machine::state_after(known.tokens))
          << "the state has changed";
    }
    std::vector<int> tokens;
    for (int i = 0; i < rows; ++i) tokens.push_back(static_cast<int>(random_() % 1000));
    machine_.run(segment, tokens);
    reveal(known, segment);
    const int keep = sure + static_cast<int>(random_() % static_cast<unsigned>(rows - sure + 1));
    txn->commit(keep);
    known.tokens.insert(known.tokens.end(), tokens.begin(), tokens.begin() + keep);
    ASSERT_EQ(known.timeline->length(), static_cast<std::int64_t>(known.tokens.size()));
  }

  void leave_untouched(std::size_t which) {
    std::optional<Txn> txn = begin(known_[which], 3, 1);
    if (!txn) return;
    txn->rollback();
    ASSERT_FALSE(known_[which].timeline->lost()) << "no step has run";
  }

  void lose(std::size_t which) {
    Known& known = known_[which];
    if (random_() % 4 != 0) return;
    std::optional<Txn> txn = begin(known, 2, 1);
    if (!txn) return;
    machine_.run(txn->segment(), {1, 2});
    txn->rollback();
    ASSERT_TRUE(known.timeline->lost());
    const auto again = known.timeline->begin(1, 1);
    ASSERT_FALSE(again.ok());
    EXPECT_NE(again.error().message.find("lost when a step failed"), std::string::npos);
    known_.erase(known_.begin() + static_cast<std::ptrdiff_t>(which));
    ++lost;
  }

  void fork(std::size_t which) {
    const Timeline& original = *known_[which].timeline;
    const std::int64_t unconfirmed = original.length() - original.min_fork_length();
    const auto length = static_cast<std::size_t>(
        original.length() -
        (random_() % 2 == 0 ? 0
                            : static_cast<std::int64_t>(random_() % static_cast<unsigned>(unconfirmed + 1))));
    shortened += length < known_[which].tokens.size() ? 1 : 0;
    const bool partial = length % kBlockRows != 0;
    const bool fits = pool_.free_slots() > 0 && (!partial || pool_.free_blocks() > 0);
    const int slots = pool_.free_slots();
    const int copies = machine_.block_copies;
    auto copy = original.fork(static_cast<std::int64_t>(length));
    ASSERT_EQ(copy.ok(), fits);
    if (!copy.ok()) {
      EXPECT_EQ(copy.error().code, Code::kExhausted);
      EXPECT_EQ(pool_.free_slots(), slots) << "a refused fork takes nothing";
      ++exhausted;
      return;
    }
    EXPECT_EQ(machine_.block_copies, copies + (partial ? 1 : 0)) << "full blocks are shared, not copied";
    Known fresh;
    fresh.timeline.emplace(std::move(*copy));
    fresh.tokens = known_[which].tokens;
    fresh.tokens.resize(length);
    ASSERT_EQ(fresh.timeline->length(), static_cast<std::int64_t>(fresh.tokens.size()));
    const std::size_t full = fresh.tokens.size() / kBlockRows;
    fresh.blocks.assign(known_[which].blocks.begin(),
                        known_[which].blocks.begin() + static_cast<std::ptrdiff_t>(full));
    if (partial) fresh.blocks.push_back(--unseen_);
    shared += static_cast<int>(full);
    known_.push_back(std::move(fresh));
  }

  void close(std::size_t which) { known_.erase(known_.begin() + static_cast<std::ptrdiff_t>(which)); }

  void move(std::size_t which) {
    Timeline moved = std::move(*known_[which].timeline);
    known_[which].timeline.emplace(std::move(moved));
  }

  /// begin() has reserved blocks for `rows`, but only a segment shows which ones. Until then each has a
  /// separate name.
  void reserve(Known& known, int rows) {
    const std::size_t needed =
        (known.tokens.size() + static_cast<std::size_t>(rows) + kBlockRows - 1) / kBlockRows;
    while (known.blocks.size() < needed) known.blocks.push_back(--unseen_);
  }

  void reveal(Known& known, const Segment& segment) {
    ASSERT_EQ(segment.sequence.blocks.size(), known.blocks.size());
    for (std::size_t i = 0; i < known.blocks.size(); ++i) {
      const std::int32_t before = known.blocks[i];
      const std::int32_t block = segment.sequence.blocks[i];
      if (before >= 0) {
        ASSERT_EQ(block, before) << "a block was exchanged";
        continue;
      }
      for (Known& other : known_) std::replace(other.blocks.begin(), other.blocks.end(), before, block);
    }
  }

  void expect_accounts() {
    std::map<std::int32_t, std::set<std::size_t>> places;
    for (const Known& known : known_) {
      for (std::size_t i = 0; i < known.blocks.size(); ++i) places[known.blocks[i]].insert(i);
    }
    for (const auto& [block, at] : places)
      ASSERT_EQ(at.size(), 1U) << "block " << block << " is in two places";
    ASSERT_EQ(pool_.free_blocks(), options_.blocks - static_cast<int>(places.size()));
    ASSERT_EQ(pool_.free_slots(), options_.slots - static_cast<int>(known_.size()));
  }

  StateOptions options_;
  Machine machine_;
  TimelinePool pool_;
  std::mt19937 random_;
  std::vector<Known> known_;
  std::int32_t unseen_ = 0;
};

TEST(Timeline, RandomSchedulesKeepEveryPastAndEveryBlock) {
  int exhausted = 0, lost = 0, shared = 0, shortened = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    Schedule schedule(seed, StateOptions{5, 14});
    schedule.run(300);
    ASSERT_FALSE(testing::Test::HasFailure()) << "seed " << seed << ", FORETOKEN_SEED=" << test::storm_seed();
    exhausted += schedule.exhausted, lost += schedule.lost, shared += schedule.shared;
    shortened += schedule.shortened;
  }
  EXPECT_GT(shortened, 100) << "forks that begin before the end";
  EXPECT_GT(exhausted, 100);
  EXPECT_GT(lost, 100);
  EXPECT_GT(shared, 100);
}

TEST(Timeline, RandomSchedulesKeepWhatEveryWindowSees) {
  int released = 0, shortened = 0, shared = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    const int window = 1 + static_cast<int>(seed * 7 % 70);
    Schedule schedule(seed, StateOptions{5, 40, true}, window);
    schedule.run(300);
    ASSERT_FALSE(testing::Test::HasFailure())
        << "seed " << seed << ", window " << window << ", FORETOKEN_SEED=" << test::storm_seed();
    released += schedule.released(), shortened += schedule.shortened, shared += schedule.shared;
  }
  EXPECT_GT(released, 1000);
  EXPECT_GT(shortened, 100) << "forks that begin before the end";
  EXPECT_GT(shared, 1000);
}

TEST(Timeline, ALongSequenceHoldsTheWindowedPartOfAFewBlocks) {
  constexpr int kWindow = 100, kRows = 16;
  const StateOptions options{2, 200, true};
  Machine machine(options, kWindow);
  TimelinePool pool(machine, options);
  Timeline timeline = std::move(*Timeline::open(pool));
  const int most = TimelinePool::window_blocks(machine.sliding_window_part(), kRows);
  const int before = machine.readable();
  for (int i = 0; i < 300; ++i) {
    Txn txn = std::move(*timeline.begin(kRows, kRows));
    machine.run(txn.segment(), std::vector<int>(kRows, i));
    ASSERT_LE(std::ssize(timeline.window_blocks()), most);
    txn.commit(kRows);
  }
  EXPECT_EQ(timeline.blocks().size(), 150U);
  EXPECT_EQ(before - machine.readable(), 150 - std::ssize(timeline.window_blocks()))
      << "all others are released";
  EXPECT_LE(timeline.min_fork_length(), timeline.length() - kForkRoom);
  const Timeline shorter = std::move(*timeline.fork(timeline.min_fork_length()));
  EXPECT_EQ(shorter.min_fork_length(), timeline.min_fork_length());
}

TEST(Timeline, ABeginThatDoesNotFitTakesNoBlock) {
  Machine machine(StateOptions{2, 4});
  TimelinePool pool(machine, StateOptions{2, 4});
  Timeline greedy = std::move(*Timeline::open(pool));
  Timeline modest = std::move(*Timeline::open(pool));
  const auto refused = greedy.begin(5 * kBlockRows, 5 * kBlockRows);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message,
            "the key/value cache is full (4 blocks of 32 positions); raise --context or run fewer requests "
            "at once");
  EXPECT_EQ(pool.free_blocks(), 4);
  Txn txn = std::move(*modest.begin(4 * kBlockRows, 4 * kBlockRows));
  txn.rollback();
}

TEST(Timeline, PartsOfATransactionStandSideBySide) {
  Machine machine(StateOptions{1, 2});
  TimelinePool pool(machine, StateOptions{1, 2});
  Timeline timeline = std::move(*Timeline::open(pool));
  Txn txn = std::move(*timeline.begin(6, 4));
  const Segment first = txn.part(0, 3);
  const Segment second = txn.part(3, 3);
  EXPECT_EQ(first.position, 0);
  EXPECT_EQ(first.confirmed, 3);
  EXPECT_EQ(second.position, 3);
  EXPECT_EQ(second.confirmed, 1);
  txn.commit(5);
  EXPECT_EQ(timeline.length(), 5);
  Txn next = std::move(*timeline.begin(1, 1));
  EXPECT_EQ(next.segment().sequence.replay, 1) << "one kept row is still on the tape";
  next.commit(1);
}

#ifdef FORETOKEN_ASSERTS
class TimelineDeathTest : public testing::Test {
 protected:
  StateOptions options_{2, 4};
  Machine machine_{options_};
  TimelinePool pool_{machine_, options_};
};

TEST_F(TimelineDeathTest, OurOwnMistakesEndTheProgram) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto open = [this] { return std::move(*Timeline::open(pool_)); };
  EXPECT_DEATH(
      {
        Timeline t = open();
        Txn txn = std::move(*t.begin(1, 1));
      },
      "timeline_ == nullptr");
  EXPECT_DEATH(
      {
        Timeline t = open();
        Txn a = std::move(*t.begin(1, 1));
        (void)t.begin(1, 1).ok();
      },
      "!open_");
  EXPECT_DEATH(
      {
        Timeline t = open();
        Txn txn = std::move(*t.begin(3, 2));
        txn.segment();
        txn.commit(1);
      },
      "keep >= confirmed_");
  EXPECT_DEATH(
      {
        Timeline t = open();
        Txn txn = std::move(*t.begin(3, 2));
        txn.commit(2);
      },
      "issued_");
  EXPECT_DEATH(
      {
        Timeline t = open();
        (void)t.begin(kMaxTapeRows + 1, 0).ok();
      },
      "kMaxTapeRows");
  EXPECT_DEATH(
      {
        Timeline t = open();
        Txn txn = std::move(*t.begin(1, 1));
        (void)t.fork().ok();
      },
      "!open_");
  EXPECT_DEATH(
      {
        Timeline t = open();
        Txn txn = std::move(*t.begin(1, 1));
        Timeline moved(std::move(t));
      },
      "!open_");
}
#endif

}  // namespace
}  // namespace ft::timeline_test
