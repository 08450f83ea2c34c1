// Many mixed requests at once with the shipped model. With any slots, neighbours, drafters and snapshots, an
// answer equals its request alone, undrafted, from an empty engine. FORETOKEN_FULL=1 runs all 64
// requests instead of a few.
#include <cstdlib>

#include "tests/small_engine.h"

namespace ft::test::batch_exactness_test {
namespace {

constexpr int kAll = 64, kFew = 12;
constexpr std::int64_t kTight = std::int64_t{12} << 20;

class BatchExactness : public EngineTest {
 protected:
  void SetUp() override { load(); }

  /// Request number i: prompts in families with shared prefixes, and every kind of sampling, depth and end.
  RequestFields mixed(int i) {
    constexpr const char* kTasks[] = {"Write a Python function that adds two numbers.",
                                      "What is the capital of France?", "Count to five in JSON.",
                                      "Write a haiku about the sea.", "Repeat: a b c a b c a b c a b c"};
    constexpr DrafterKind kDrafters[] = {DrafterKind::kAuto, DrafterKind::kMtp, DrafterKind::kLookup,
                                         DrafterKind::kNone};
    std::string task = kTasks[i % 5];
    if (i % 3 == 1) task = "You are brief. You answer in one sentence, in plain words. " + task;
    if (i % 7 == 2) task += " Then explain each step of it.";
    RequestFields request = fields(task, kDrafters[i % 4], 12 + i % 17);
    SlotOptions& slot = request.slot;
    slot.depth = i % 6 - 1;
    slot.sampler.seed = static_cast<std::uint64_t>(100 + i);
    slot.sampler.temperature = i % 3 == 0 ? 0 : 0.4F + 0.1F * static_cast<float>(i % 8);
    if (i % 4 == 1) slot.sampler.top_k = 30, slot.sampler.top_p = 0.9F;
    if (i % 5 == 2) slot.sampler.repetition = 1.2F, slot.sampler.frequency = 0.4F;
    if (i % 5 == 4) slot.bias = {{11, 1.5F}, {262, -3.0F}, {300, 2.0F}};
    if (i % 6 == 3) request.stops = {"\n\n", "the"};
    if (i % 9 == 5) slot.eos.clear();
    return request;
  }

  static EngineOptions sized(int slots, std::int64_t cache_bytes) {
    EngineOptions options;
    options.decoder.slots = slots;
    options.decoder.context = 256;
    options.decoder.prefill_chunk = slots == 3 ? 19 : 256;
    options.decoder.cache_bytes = cache_bytes;
    options.snapshot_tokens = 32;
    return options;
  }

  std::vector<Collected> all_at_once(const std::vector<RequestFields>& requests) {
    std::vector<Ticket> tickets;
    for (const RequestFields& request : requests) tickets.push_back(submit(request));
    std::vector<Collected> answers;
    for (Ticket& ticket : tickets) answers.push_back(collect(ticket));
    return answers;
  }

  static void expect_same(const std::vector<Collected>& found, const std::vector<Collected>& lone,
                          const std::string& where) {
    ASSERT_EQ(found.size(), lone.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].tokens, lone[i].tokens) << where << ", request " << i;
      EXPECT_EQ(found[i].text, lone[i].text) << where << ", request " << i;
      EXPECT_EQ(found[i].finish, lone[i].finish) << where << ", request " << i;
    }
  }
};

TEST_F(BatchExactness, EveryRequestGetsTheAnswerOfItsLoneRun) {
  const int count = std::getenv("FORETOKEN_FULL") != nullptr ? kAll : kFew;
  std::vector<RequestFields> requests;
  for (int i = 0; i < count; ++i) requests.push_back(mixed(i));
  start(sized(1, 0));
  std::vector<Collected> lone;
  for (RequestFields request : requests) {
    request.drafter = DrafterKind::kNone;
    lone.push_back(answer(std::move(request)));
  }
  std::int64_t accepted = 0;
  for (const int slots : {1, 3, 8}) {
    // First room for all snapshots, then for so few that they are evicted constantly.
    for (const std::int64_t cache_bytes : {std::int64_t{256} << 20, kTight}) {
      if (cache_bytes == kTight && slots != 3) continue;
      start(sized(slots, cache_bytes));
      const std::string where = std::to_string(slots) + " slots";
      expect_same(all_at_once(requests), lone, where + ", cold");
      const std::int64_t hits = engine_->cache().hits;
      expect_same(all_at_once(requests), lone, where + ", warm");
      EXPECT_TRUE(cache_bytes == kTight || engine_->cache().hits > hits) << where;
      accepted += engine_->status().accepted;
    }
  }
  EXPECT_GT(accepted, count) << "drafts were accepted, so they were put to the test";
}

}  // namespace
}  // namespace ft::test::batch_exactness_test
