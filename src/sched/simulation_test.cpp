// The scheduler under a seeded storm: requests arrive at random, some callers leave, some do not read for a
// while, queues fill, snapshots are evicted, prompts are cut into odd chunks. The clock is a number, and the
// model is a small random one on the reference backend. Each answer must equal its request alone, and
// nothing may be left.
#include <filesystem>
#include <map>
#include <random>
#include <unistd.h>

#include "sched/scheduler.h"
#include "tests/storm_seed.h"
#include "tests/toy_decoder.h"

namespace ft::test::simulation_test {
namespace {

constexpr int kSlots = 3;
constexpr std::size_t kQueue = 4;
constexpr std::size_t kBox = 6;  // unread events
constexpr double kUnreadMs = 300;

struct Storm {
  int finished = 0, cancelled = 0, unread = 0, refused = 0, cached = 0, drafted = 0;
  std::int64_t loaded = 0;  // from files
};

class Simulation : public testing::Test {
 protected:
  struct Client {
    Ticket ticket;
    std::size_t kind;
    std::vector<std::int32_t> tokens;
    double asleep_until = 0;
    bool left = false;
  };

  Simulation() : tokenizer_(std::move(*Tokenizer::load("assets/qwen3.5-tiny"))) {
    std::mt19937 random(3);
    std::vector<std::vector<std::int32_t>> prompts = {{1, 2, 3}};
    for (int i = 0; i < 24; ++i) {  // a tree of prompts
      std::vector<std::int32_t> prompt = prompts[random() % prompts.size()];
      prompt.resize(prompt.size() - random() % prompt.size() / 3);
      for (std::size_t more = 1 + random() % 40; more > 0 && prompt.size() < 120; --more)
        prompt.push_back(static_cast<std::int32_t>(random() % 101));
      prompts.push_back(prompt);
      kinds_.push_back(fields(prompt, random));
    }
  }

  static RequestFields fields(const std::vector<std::int32_t>& prompt, std::mt19937& random) {
    constexpr DrafterKind kDrafters[] = {DrafterKind::kMtp, DrafterKind::kAuto, DrafterKind::kLookup,
                                         DrafterKind::kNone};
    RequestFields fields;
    fields.prompt = prompt;
    fields.parse = false;
    fields.drafter = kDrafters[random() % 4];
    fields.slot.max_tokens = 1 + static_cast<int>(random() % 14);
    fields.slot.depth = static_cast<int>(random() % 6) - 1;
    fields.slot.sampler.seed = random();
    fields.slot.sampler.temperature = random() % 3 == 0 ? 0 : 0.9F;
    if (random() % 3 == 0) fields.slot.sampler.repetition = 1.3F, fields.slot.sampler.presence = 0.5F;
    if (random() % 4 == 0) fields.slot.bias = {{5, 2.0F}, {50, -4.0F}};
    if (random() % 4 == 0) fields.slot.eos = {7, 20, 33};
    return fields;
  }

  const std::vector<std::int32_t>& lone(std::size_t kind) {
    const auto found = lone_.find(kind);
    if (found != lone_.end()) return found->second;
    SlotOptions plain = kinds_[kind].slot;
    plain.depth = 0;
    return lone_[kind] = alone_.answer(kinds_[kind].prompt, plain);
  }

  void arrive(std::deque<std::unique_ptr<Job>>& waiting, std::mt19937& random, Storm& storm) {
    if (waiting.size() >= kQueue) {
      ++storm.refused;
      return;
    }
    const std::size_t kind = random() % kinds_.size();
    auto mailbox = std::make_shared<Mailbox>(kBox);
    waiting.push_back(std::make_unique<Job>(std::move(*Request::make(kinds_[kind], 101)), mailbox, now_));
    clients_.push_back({Ticket(std::move(mailbox)), kind, {}, 0, false});
  }

  /// Reads the events that are there, sometimes sleeps, sometimes leaves. True when its request has ended.
  bool act(Client& client, std::mt19937& random, Storm& storm) {
    if (!client.left && random() % 150 == 0) {
      client.ticket.cancel();
      client.left = true;
    }
    if (now_ < client.asleep_until) return false;
    if (random() % 40 == 0) client.asleep_until = now_ + (random() % 8 == 0 ? 2 * kUnreadMs : 60);
    while (std::optional<Event> event = client.ticket.try_next()) {
      if (event->kind == Event::Kind::kToken) client.tokens.push_back(event->token);
      if (event->kind != Event::Kind::kEnd) continue;
      check_end(client, *event, storm);
      return true;
    }
    return false;
  }

  void check_end(const Client& client, const Event& end, Storm& storm) {
    const std::vector<std::int32_t>& wanted = lone(client.kind);
    storm.cached += end.report.cached_tokens;
    storm.drafted += static_cast<int>(end.report.speculation.drafted);
    if (end.finish == Finish::kCancelled) {
      ASSERT_TRUE(client.left || !end.error.message.empty());
      storm.unread += end.error.message.empty() ? 0 : 1;
      ++storm.cancelled;
      ASSERT_LE(client.tokens.size(), wanted.size());
      ASSERT_TRUE(std::equal(client.tokens.begin(), client.tokens.end(), wanted.begin())) << client.kind;
      return;
    }
    ASSERT_TRUE(end.finish == Finish::kLength || end.finish == Finish::kStop) << end.error.message;
    ASSERT_EQ(client.tokens, wanted) << "request " << client.kind;
    ++storm.finished;
  }

  Storm run(unsigned seed, int steps, std::int64_t cache_bytes, const std::string& directory = {}) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", FORETOKEN_SEED=" + std::to_string(storm_seed()));
    ToyDecoder decoder(kSlots, {}, 160, cache_bytes);
    std::unique_ptr<CacheTier> folder;
    if (!directory.empty()) {
      CacheTierOptions options;
      options.directory = directory, options.limit_bytes = std::int64_t{4} << 20;
      folder = std::move(*CacheTier::open(options));
      EXPECT_TRUE(folder->start(decoder->snapshots()).ok());
    }
    const int blocks = decoder->pool().free_blocks(), slots = decoder->pool().free_slots();
    const int draft_blocks = decoder->draft_pool()->free_blocks();
    const int draft_slots = decoder->draft_pool()->free_slots();
    Storm storm;
    std::mt19937 random(seed + storm_seed());
    {
      std::vector<CacheTier*> tiers;
      if (folder) tiers.push_back(folder.get());
      Scheduler scheduler(*decoder, tokenizer_, *find_chat_format("qwen3_5 without a grammar of calls"),
                          {kUnreadMs, 48, [this] { return now_ += 0.25; }, tiers});
      std::deque<std::unique_ptr<Job>> waiting;
      for (int step = 0; step < steps || !clients_.empty(); ++step) {
        now_ += static_cast<double>(random() % 20);
        if (step < steps && random() % 3 == 0) arrive(waiting, random, storm);
        if (random() % 400 == 0) scheduler.cache().clear();
        for (; scheduler.has_free_slot() && !waiting.empty(); waiting.pop_front())
          scheduler.admit(std::move(waiting.front()));
        scheduler.step();
        std::erase_if(clients_, [&](Client& client) { return act(client, random, storm); });
        if (HasFatalFailure()) break;
      }
      EXPECT_TRUE(scheduler.idle());
      EXPECT_LE(scheduler.cache().report().bytes, cache_bytes);
      clients_.clear();
    }
    if (folder) {
      storm.loaded = folder->report().hits;
    }
    folder.reset();
    EXPECT_EQ(decoder->pool().free_blocks(), blocks) << "blocks were not returned";
    EXPECT_EQ(decoder->pool().free_slots(), slots);
    EXPECT_EQ(decoder->draft_pool()->free_blocks(), draft_blocks);
    EXPECT_EQ(decoder->draft_pool()->free_slots(), draft_slots);
    return storm;
  }

  Tokenizer tokenizer_;
  ToyDecoder alone_{1, {}, 160};
  std::vector<RequestFields> kinds_;
  std::map<std::size_t, std::vector<std::int32_t>> lone_;
  std::vector<Client> clients_;
  double now_ = 1000;
};

TEST_F(Simulation, EveryAnswerIsThatOfItsLoneRunAndNothingLeaks) {
  Storm sum;
  for (const std::int64_t cache_bytes : {std::int64_t{0}, std::int64_t{400} << 10, std::int64_t{8} << 20}) {
    const Storm storm = run(static_cast<unsigned>(cache_bytes) + 1, 1500, cache_bytes);
    EXPECT_EQ(storm.cached > 0, cache_bytes > 0);
    sum.finished += storm.finished, sum.cancelled += storm.cancelled, sum.unread += storm.unread;
    sum.refused += storm.refused, sum.drafted += storm.drafted;
  }
  // A small cache with a folder, twice: the second storm finds the files of the first.
  const std::string folder =
      std::filesystem::temp_directory_path() / ("foretoken_storm" + std::to_string(getpid()));
  for (const unsigned seed : {7U, 8U}) {
    const Storm storm = run(seed, 1000, std::int64_t{400} << 10, folder);
    if (seed == 8) {
      EXPECT_GT(storm.loaded, 0);
    }
    EXPECT_GT(storm.finished, 50);
  }
  std::filesystem::remove_all(folder);
  EXPECT_GT(sum.finished, 200);
  EXPECT_GT(sum.cancelled, 20);
  EXPECT_GT(sum.unread, 2);
  EXPECT_GT(sum.refused, 5);
  EXPECT_GT(sum.drafted, 500);
}

}  // namespace
}  // namespace ft::test::simulation_test
