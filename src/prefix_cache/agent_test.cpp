// The prompts of a coding agent's conversation: a long system prompt with tools, a history that grows to 64K
// tokens in 30 turns, reasoning that the next prompt leaves out, small side requests, a date line that
// changes, a compaction. Nothing is computed, and the sizes of a model are given as numbers, so a cache of
// many gigabytes takes no memory.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <random>

#include "prefix_cache/prefix_cache.h"

namespace ft::agent_test {
namespace {

using Tokens = std::vector<std::int32_t>;

/// Memory without bytes.
class NoMemory final : public State {
 public:
  void copy_block(std::int32_t, std::int32_t) override {}
  void copy_slot(std::int32_t, std::int32_t) override {}
  std::int64_t bytes() const override { return 0; }
  std::int64_t block_bytes() const override { return 1; }
  std::int64_t slot_bytes() const override { return 1; }
  void read_block(std::int32_t, std::span<std::byte>) const override {}
  void write_block(std::int32_t, std::span<const std::byte>) override {}
  void read_slot(std::int32_t, std::span<std::byte>) const override {}
  void write_slot(std::int32_t, std::span<const std::byte>) override {}
};

/// The memory of a model, and of the cache that it gets at start (sched/memory_plan.h).
struct Sizes {
  const char* name;
  std::int64_t state, token;  // bytes of a snapshot's state, and of a token's keys and values
  std::int64_t cache;
  int snapshots;
  std::int64_t block_tokens;  // in the blocks of the cache
  std::int64_t least_step;
};

constexpr std::int64_t kMegabyte = 1'000'000;
constexpr int kContext = 81920;

class Server {
 public:
  explicit Server(const Sizes& sizes)
      : sizes_(sizes),
        options_{.slots = 1 + sizes.snapshots,
                 .blocks = static_cast<int>(blocks(kContext) + blocks(sizes.block_tokens))},
        pool_(memory_, options_),
        cache_({.snapshots = sizes.snapshots,
                .blocks = static_cast<int>(blocks(sizes.block_tokens)),
                .snapshot_bytes = sizes.state,
                .block_bytes = sizes.token * kBlockRows},
               sizes.cache) {}

  /// Tokens of the prompt that come from the cache.
  std::int64_t ask(const Tokens& prompt, const Tokens& answer) {
    const PrefixCache::Found found = cache_.find(prompt, false);
    const std::int64_t cached = found.hit.length;
    const auto size = static_cast<std::int64_t>(prompt.size());
    Timeline timeline = cached > 0 ? *found.hit.snapshot->timeline.fork(cached) : *Timeline::open(pool_);
    for (std::int64_t done = cached; done < size;) {
      const std::int64_t step = PrefixCache::step_at(done, sizes_.least_step);
      std::int64_t next = std::min({size, (done / step + 1) * step, done + 256});
      if (found.shared > done) next = std::min(next, found.shared);
      advance(timeline, next - done);
      done = next;
      using Place = PrefixCache::Place;
      const Place place = done == found.shared ? Place::kParting
                          : done < size        ? Place::kWithin
                                               : Place::kPrompt;
      if (place != Place::kWithin || done % PrefixCache::step_at(done, sizes_.least_step) == 0)
        keep(timeline, prompt, place);
    }
    Tokens whole = prompt;
    for (const std::int32_t token : answer) {
      advance(timeline, 1);
      whole.push_back(token);
    }
    keep(timeline, whole, PrefixCache::Place::kAnswer);
    return cached;
  }
  CacheReport report() const { return cache_.report(); }

 private:
  static std::int64_t blocks(std::int64_t tokens) { return tokens / kBlockRows + 2; }

  static void advance(Timeline& timeline, std::int64_t rows) {
    const auto count = static_cast<int>(rows);
    Txn txn = *timeline.begin(count, std::max(count - kMaxTapeRows, 0));
    (void)txn.segment();
    txn.commit(count);
  }

  void keep(const Timeline& timeline, const Tokens& tokens, PrefixCache::Place place) {
    const std::span<const std::int32_t> past(tokens.data(), static_cast<std::size_t>(timeline.length()));
    cache_.store(
        past, false,
        [&]() -> Result<Snapshot> {
          FT_ASSIGN(Timeline copy, timeline.fork());
          return Snapshot{std::move(copy), nullptr};
        },
        place);
  }

  Sizes sizes_;
  NoMemory memory_;
  StateOptions options_;
  TimelinePool pool_;
  PrefixCache cache_;
};

class Agent {
 public:
  static constexpr int kTurns = 30, kDateChanges = 12, kCompacts = 27;
  static constexpr std::size_t kSystem = 15000, kDateAt = 14500;

  Agent() : system_(some(kSystem)) {}

  Tokens prompt(int turn) {
    if (turn == kDateChanges) system_[kDateAt] += 1;
    if (turn == kCompacts) history_ = some(3000);
    history_ = joined(history_, some(turn % 4 == 0 ? 3400 : 1300));  // results of tools, and the user's text
    return joined(joined(system_, history_), kAnswerBegins);
  }
  Tokens answer() { return joined(some(90), some(40)); }  // reasoning and text
  void remember(const Tokens& answer) {
    history_ = joined(joined(history_, kAnswerBegins), Tokens(answer.end() - 40, answer.end()));
  }
  Tokens side() { return some(900); }  // a title, a summary

 private:
  static Tokens joined(Tokens a, const Tokens& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  }
  Tokens some(std::size_t count) {
    Tokens tokens;
    for (std::size_t i = 0; i < count; ++i) tokens.push_back(static_cast<std::int32_t>(random_() % 8192));
    return tokens;
  }

  const Tokens kAnswerBegins = {8190, 8191, 8189};
  std::mt19937 random_{11};
  Tokens system_, history_;
};

std::int64_t shared(const Tokens& prompt, const std::vector<Tokens>& earlier) {
  std::int64_t most = 0;
  for (const Tokens& tokens : earlier) {
    const std::size_t both = std::min(tokens.size(), prompt.size() - 1);
    const auto end = prompt.begin() + static_cast<std::ptrdiff_t>(both);
    most = std::max<std::int64_t>(most,
                                  std::mismatch(prompt.begin(), end, tokens.begin()).first - prompt.begin());
  }
  return most;
}

/// The share from the cache of the tokens that a prompt shares with any earlier prompt or answer: the least
/// share of all turns after the first, and the share of the turn with another date.
struct Shares {
  double least = 1, date = 1;
  std::int64_t longest = 0;
  std::string all;
};

Shares converse(Server& server) {
  Agent agent;
  std::vector<Tokens> earlier;
  Shares shares;
  for (int turn = 0; turn < Agent::kTurns; ++turn) {
    const Tokens prompt = agent.prompt(turn), answer = agent.answer();
    const std::int64_t reusable = shared(prompt, earlier), cached = server.ask(prompt, answer);
    const double share = reusable == 0 ? 1 : static_cast<double>(cached) / static_cast<double>(reusable);
    (turn == Agent::kDateChanges ? shares.date : shares.least) =
        std::min(share, turn == Agent::kDateChanges ? shares.date : shares.least);
    shares.all += fmt::format("turn {}: {} of {}\n", turn, cached, reusable);
    shares.longest = std::max(shares.longest, static_cast<std::int64_t>(prompt.size()));
    earlier.push_back(prompt);
    earlier.back().insert(earlier.back().end(), answer.begin(), answer.end());
    agent.remember(answer);
    if (turn % 3 == 0) server.ask(agent.side(), agent.answer());
  }
  return shares;
}

// The 27B on a GPU: snapshots and blocks are divided at the start. The 4B in a machine's memory: the bytes
// bound both together. Worked out by hand for the published shapes in 4 bits; not read from MemoryPlan.
constexpr Sizes kRoomy[] = {
    {"27B, GPU of 80 GB", 209 * kMegabyte, 69'632, 24'000 * kMegabyte, 57, 170'000, 1024},
    {"4B, machine of 24 GB", 73 * kMegabyte, 36'864, 7'000 * kMegabyte, 90, 190'000, 512},
};

TEST(AgentConversation, EachTurnTakesNineteenTwentiethsOfWhatItSharesFromTheCache) {
  for (const Sizes& sizes : kRoomy) {
    Server server(sizes);
    const Shares shares = converse(server);
    EXPECT_GE(shares.longest, 64'000) << sizes.name;
    EXPECT_GE(shares.least, 0.95) << sizes.name << "\n" << shares.all;
    EXPECT_GE(shares.date, 0.95) << sizes.name << "\n" << shares.all;
    EXPECT_LE(server.report().bytes, sizes.cache) << sizes.name;
  }
}

TEST(AgentConversation, WithFewStatesTheNextTurnLosesNothing) {
  constexpr Sizes kTight = {"27B, GPU of 32 GB", 209 * kMegabyte, 69'632, 6'600 * kMegabyte, 8, 70'000, 1024};
  Server server(kTight);
  const Shares shares = converse(server);
  EXPECT_GE(shares.least, 0.95) << shares.all;
  EXPECT_GE(shares.date, 0.5) << "an edit far back finds one of few states";
}

}  // namespace
}  // namespace ft::agent_test
