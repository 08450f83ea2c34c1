// The choice among real drafters on a text that changes kind every 200 tokens, counted and not timed. At each
// place of greedy answers of the trained model the drafts of its MTP head, of its DFlash drafter and of
// lookup are compared with the answer; the policy then chooses among them by simulated costs. The trained
// pair is not in the repository: FORETOKEN_TRAINED names its folder.
#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>
#include <map>

#include "backends/registry.h"
#include "speculation/simulated_drafting.h"
#include "tests/golden_files.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace ft::test::trained_choice_test {
namespace {

using Tokens = std::vector<std::int32_t>;
constexpr int kSegment = 200;  // tokens of one kind
constexpr int kAnswer = 120;   // tokens of an answer, at most
constexpr int kSegments = 16;
constexpr std::size_t kBegins = 4;

using Order = std::vector<std::size_t>;  // kinds, alternating

/// Of kPasses (the MTP head), kFree (lookup) and kBlock (DFlash), by Source::number().
const Source* const kDrafters[] = {&kPasses, &kFree, &kBlock};
constexpr DrafterKind kNames[] = {DrafterKind::kMtp, DrafterKind::kLookup, DrafterKind::kDflash};
constexpr int kMtp[] = {0}, kLookup[] = {1}, kDflash[] = {2}, kNetworks[] = {0, 2}, kAll[] = {0, 1, 2};

/// The drafts that each drafter offers at one place of an answer, and how many of them are right.
struct Place {
  std::array<int, 3> max_tokens{}, context_class{}, right{};
};

struct Prompt {
  const char* text;
  bool raw;  // continued as it is
};

/// Four kinds of text, some of which the trained model knows well.
const std::vector<std::vector<Prompt>> kKinds = {
    {{"Write a Python function `fibonacci` that returns the nth Fibonacci number.", false},
     {"Write a Python function that counts the vowels in a string.", false},
     {"Write a dataclass `Point` with the fields x and y and a method that adds two points.", false},
     {"Write a Python function that reverses a list.", false},
     {"Write a Python function `is_prime` that tells whether a number is prime.", false},
     {"Write a Python class `Stack` with push and pop.", false},
     {"Write a Python function that returns the largest number of a list.", false}},
    {{"import argparse\nimport os\n\n\nclass Settings:\n    \"\"\"Options that are read from a "
      "file.\"\"\"\n\n",
      true},
     {"def parse_header(line):\n    \"\"\"Split a header into its name and its value.\"\"\"\n", true},
     {"class Queue:\n    \"\"\"A first-in, first-out list.\"\"\"\n\n    def __init__(self):\n", true}},
    {{"Rename the variable `x` to `total` in this code:\n\ndef add(x, y):\n    x = x + y\n    if x > 10:\n"
      "        x = x - 10\n    return x\n",
      false},
     {"Rename the function `load` to `read_all` in this code:\n\ndef load(path):\n    with open(path) as f:\n"
      "        return f.read()\n\n\ndef main():\n    print(load(\"a.txt\"))\n    print(load(\"b.txt\"))\n",
      false},
     {"Add type hints to this function:\n\ndef scale(values, factor):\n    result = []\n    for value in "
      "values:\n"
      "        result.append(value * factor)\n    return result\n",
      false},
     {"Find the bug in this function:\n\ndef mean(values):\n    total = 0\n    for value in values:\n"
      "        total += value\n    return total / (len(values) - 1)\n",
      false}},
    {{"Configuration\n=============\n\nThe settings are read from a file in the home directory. ", true},
     {"Installation\n============\n\nThis package can be installed ", true},
     {"Changes in version 2\n====================\n\n", true}}};

class TrainedChoice : public testing::Test {
 protected:
  void SetUp() override {
    const char* trained = std::getenv("FORETOKEN_TRAINED");
    if (trained == nullptr) GTEST_SKIP() << "FORETOKEN_TRAINED names no folder";
    if (std::getenv("FORETOKEN_FULL") == nullptr) GTEST_SKIP() << "takes a minute: FORETOKEN_FULL=1";
    const std::string folder = std::string(trained) + "/qwen3.5-tiny";
    tokenizer_.emplace(std::move(*Tokenizer::load(folder)));
    template_.emplace(std::move(*ChatTemplate::load(folder)));
    model_ = std::move(*load_model(folder, {.drafters = {{"dflash", folder + "-dflash"}}}));
    backend_ = std::move(*make_backend({.name = "cpu", .threads = 2}));
    DecoderOptions options;
    options.slots = 3, options.context = 1024;
    decoder_ = std::move(*Decoder::make(*backend_, model_, options));
    for (const auto& prompts : kKinds) {
      std::vector<Place> places;
      for (const Prompt& prompt : prompts) add_answer(prompt, places);
      kinds_.push_back(std::move(places));
    }
    for (const int number : kAll) {
      const Drafter* drafter = decoder_->drafter(kNames[number]);
      for (int context = 0; context < Drafter::kContextClasses; ++context)
        prior_.expect(number, context, drafter->first_guess(context));
    }
  }

  void add_answer(const Prompt& prompt, std::vector<Place>& places) {
    std::string text = prompt.text;
    sampler_.temperature = prompt.raw ? 0.7F : 0;
    if (!prompt.raw) {
      const std::string messages = R"([{"role":"user","content":)" + quoted(text) + "}]";
      text = std::move(*template_->render(messages, "", {}));
    }
    const Tokens ids = std::move(*tokenizer_->encode(text, false));
    const Tokens tokens = answered(ids);
    std::vector<Place> answer(tokens.size() - ids.size());
    for (const int number : kAll) compare(tokens, ids.size(), number, answer);
    places.insert(places.end(), answer.begin(), answer.end());
  }

  static std::string quoted(const std::string& text) {
    std::string out = "\"";
    for (const char letter : text) {
      if (letter == '"' || letter == '\\') out += '\\';
      out += letter == '\n' ? "\\n" : std::string(1, letter);
    }
    return out + "\"";
  }

  /// Prompt and greedy answer.
  Tokens answered(const Tokens& prompt) {
    SlotOptions options;
    options.max_tokens = kAnswer, options.depth = 0;
    options.sampler = sampler_;
    options.eos.assign(model_.facts.eos_ids.begin(), model_.facts.eos_ids.end());
    auto slot = std::move(*decoder_->open(prompt, options, DrafterKind::kNone));
    while (!slot->prefilled()) EXPECT_TRUE(decoder_->prefill(*slot, 64).ok());
    Slot* one = slot.get();
    while (slot->finish == Finish::kNone) decoder_->round({&one, 1});
    Tokens tokens = slot->tokens;
    decoder_->close(*slot);
    return tokens;
  }

  /// Drafts at every place of the answer, which begins at `first`.
  void compare(const Tokens& tokens, std::size_t first, int number, std::vector<Place>& answer) {
    SlotOptions options;
    options.max_tokens = 1;
    auto slot = std::move(*decoder_->open(tokens, options, kNames[number]));
    Tokens drafts(kMaxDraftTokens);
    for (std::size_t at = first; at < tokens.size(); ++at) {
      const auto pending = static_cast<std::int64_t>(at) - 1;
      while (slot->timeline->length() < pending) {
        const auto missing = static_cast<int>(pending - slot->timeline->length());
        EXPECT_TRUE(decoder_->prefill(*slot, std::min(missing, 64)).ok());
      }
      DraftSlot ask;
      ask.id = slot->id, ask.drafts = drafts, ask.tokens = std::span(tokens).first(at);
      Place& place = answer[at - first];
      const auto who = static_cast<std::size_t>(number);
      place.max_tokens[who] = slot->drafter->plan(ask),
      place.context_class[who] = slot->drafter->context_class(slot->id);
      if (place.max_tokens[who] == 0) continue;
      const Tokens found = drafted(*slot, ask, place.max_tokens[who]);
      int& right = place.right[who];
      while (right < std::ssize(found) && at + static_cast<std::size_t>(right) < tokens.size() &&
             found[static_cast<std::size_t>(right)] == tokens[at + static_cast<std::size_t>(right)])
        ++right;
    }
    decoder_->close(*slot);
  }

  Tokens drafted(Slot& slot, DraftSlot& ask, int depth) {
    ask.sample.sampler = &sampler_;
    ask.sample.position = std::ssize(ask.tokens);
    ask.depth = depth;
    DraftSlot* one = &ask;
    EXPECT_TRUE(slot.drafter->propose({&one, 1}, ask.drafts).ok());
    slot.drafter->collect();
    return {ask.drafts.begin(), ask.drafts.begin() + ask.drafted};
  }

  struct Pace {
    double tokens = 0, steps = 0;
    double value() const { return tokens / steps; }
  };

  /// One round at a place of the answers; returns its tokens.
  static int round(DepthPolicy& policy, const CostModel& costs, std::span<const int> who, const Place& place,
                   Pace& pace) {
    std::vector<Offer> offers;
    for (const int number : who) {
      const auto at = static_cast<std::size_t>(number);
      if (place.max_tokens[at] > 0)
        offers.push_back({kDrafters[number], place.max_tokens[at], place.context_class[at]});
    }
    const int drafted =
        offers.empty() ? policy.choose_none() : policy.choose(costs, offers, kMaxDraftTokens, {});
    int accepted = 0;
    double passes = 0;
    if (drafted > 0) {
      const Offer& offer = offers[policy.chosen()];
      accepted = std::min(drafted, place.right[static_cast<std::size_t>(offer.drafter->number())]);
      policy.observe(drafted, accepted, *offer.drafter, offer.context_class);
      passes = costs.draft_steps(*offer.drafter, drafted);
    }
    pace.steps += costs.round(1 + drafted, passes, 1);
    pace.tokens += 1 + accepted;
    return 1 + accepted;
  }

  /// `order`: the kinds in sequence. `who(kind)` may draft there, `policy(kind)` chooses.
  template <class Who, class Policy>
  Pace run(const CostModel& costs, const Order& order, Who who, Policy policy) {
    Pace pace;
    std::map<std::size_t, std::size_t> at;
    for (const std::size_t kind : order) at[kind] = kinds_[kind].size() * begin_ / kBegins;
    for (int segment = 0; segment < kSegments; ++segment) {
      const std::size_t kind = order[static_cast<std::size_t>(segment) % order.size()];
      const std::vector<Place>& places = kinds_[kind];
      for (int tokens = 0; tokens < kSegment;) {
        const int emitted = round(policy(kind), costs, who(kind), places[at[kind]], pace);
        tokens += emitted;
        at[kind] = (at[kind] + static_cast<std::size_t>(emitted)) % places.size();
      }
    }
    return pace;
  }

  Pace alone(const CostModel& costs, const Order& order, std::span<const int> who) {
    DepthPolicy policy(-1, prior_);
    return run(
        costs, order, [&](std::size_t) { return who; }, [&](std::size_t) -> DepthPolicy& { return policy; });
  }

  /// The best single drafter of each kind, with a policy that sees only this kind.
  Pace oracle(const CostModel& costs, const Order& order) {
    std::map<std::size_t, std::span<const int>> best;
    std::map<std::size_t, DepthPolicy> policies;
    for (const std::size_t kind : order) {
      double most = 0;
      for (const std::span<const int> who : {std::span<const int>(kMtp), {kLookup}, {kDflash}}) {
        const double pace = alone(costs, {kind}, who).value();
        if (pace > most) most = pace, best[kind] = who;
      }
      policies.emplace(kind, DepthPolicy(-1, prior_));
    }
    return run(
        costs, order, [&](std::size_t kind) { return best[kind]; },
        [&](std::size_t kind) -> DepthPolicy& { return policies.at(kind); });
  }

  SamplingParams sampler_;  // of the answer
  std::optional<Tokenizer> tokenizer_;
  std::optional<ChatTemplate> template_;
  Model model_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Decoder> decoder_;
  std::vector<std::vector<Place>> kinds_;
  AcceptancePrior prior_;
  std::size_t begin_ = 0;  // quarters of the answers of a kind
};

/// The beginnings of the kinds are shifted four times; the mean counts.
TEST_F(TrainedChoice, ReachesTheBestSingleDrafterOfEachKindWhereATextChangesKind) {
  struct {
    double row, draft, block;  // in plain steps; block: passes of the MTP head that one block costs
  } const machines[] = {{0.1, 0.06, 2}, {0.03, 0.1, 1.5}, {0.1, 0.2, 1}, {0.03, 0.05, 1.5}};
  const std::vector<Order> orders = {{0, 1}, {0, 2}, {0, 3}, {1, 2}, {2, 3}, {0, 1, 2, 3}};
  double of_networks = 0;
  for (const auto& [row, draft, block] : machines) {
    CostModel costs = costs_of(row, draft);
    costs.set_pass_cost(kBlock.number(), block);
    for (const Order& order : orders) {
      double all = 0, networks = 0;
      for (begin_ = 0; begin_ < kBegins; ++begin_) {
        const double best = oracle(costs, order).value() * kBegins;
        all += alone(costs, order, kAll).value() / best;
        networks += alone(costs, order, kNetworks).value() / best;
      }
      RecordProperty(testing::PrintToString(order) + std::to_string(row) + std::to_string(draft),
                     std::to_string(all) + " " + std::to_string(networks));
      EXPECT_GE(all, 0.97) << testing::PrintToString(order) << row << " " << draft;
      EXPECT_GE(networks, 0.93) << testing::PrintToString(order) << row << " " << draft;
      of_networks += networks / static_cast<double>(orders.size() * std::size(machines));
    }
  }
  EXPECT_GE(of_networks, 0.97);
}

}  // namespace
}  // namespace ft::test::trained_choice_test
