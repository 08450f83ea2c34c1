// A failure in a round affects only its slots: a slot without blocks, a backend that throws at any of its
// runs.
#include <random>
#include <stdexcept>

#include "program/forwarding_backend.h"
#include "tests/toy_decoder.h"

namespace ft::test::failure_test {
namespace {

std::vector<std::int32_t> prompt(unsigned seed, int count) {
  std::mt19937 random(seed);
  std::vector<std::int32_t> tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(static_cast<std::int32_t>(random() % 101));
  return tokens;
}

/// Counts the steps of all its programs and throws at one of them, before or after the inner step.
struct Fault {
  int runs = 0;
  int fail_at = 0;  // 0: never
  bool late = false;
  bool of_drafter = false;  // the program that threw is a drafter's
};

class FaultyExecutable final : public ForwardingExecutable {
 public:
  FaultyExecutable(std::unique_ptr<Executable> executable, bool of_drafter, Fault& fault)
      : ForwardingExecutable(std::move(executable)), of_drafter_(of_drafter), fault_(fault) {}
  void submit(const StepArgs& args, State& state) override {
    const bool fails = ++fault_.runs == fault_.fail_at;
    if (fails) fault_.of_drafter = of_drafter_;
    if (fails && !fault_.late) throw std::runtime_error("the device is gone");
    inner().submit(args, state);
    if (fails) throw std::runtime_error("the device is gone after its work");
  }

 private:
  bool of_drafter_;
  Fault& fault_;
};

bool takes_input(const Program& program) {
  const auto& list = program.instructions();
  return std::any_of(list.begin(), list.end(), [](const Instruction& instruction) {
    return std::holds_alternative<Input>(instruction);
  });
}

class FaultyBackend final : public ForwardingBackend {
 public:
  explicit FaultyBackend(Fault& fault) : ForwardingBackend(make_ref_backend()), fault_(fault) {}
  Result<std::unique_ptr<Executable>> compile(const Program& program,
                                              const CompileOptions& options) override {
    FT_ASSIGN(std::unique_ptr<Executable> executable, inner().compile(program, options));
    return std::unique_ptr<Executable>(
        std::make_unique<FaultyExecutable>(std::move(executable), takes_input(program), fault_));
  }

 private:
  Fault& fault_;
};

class FaultyRound : public testing::TestWithParam<bool> {
 protected:
  SlotOptions options(std::uint64_t seed) const {
    SlotOptions result;
    result.max_tokens = 9;
    result.depth = 3;
    result.sampler.temperature = 1;
    result.sampler.seed = seed;
    return result;
  }

  /// Two slots in rounds while a third waits after its prompt. False if a run threw.
  bool run(ToyDecoder& decoder, std::vector<std::unique_ptr<Slot>>& slots) {
    std::vector<Slot*> running = {slots[0].get(), slots[1].get()};
    try {
      for (Slot* slot : running) {
        while (!slot->prefilled()) EXPECT_TRUE(decoder->prefill(*slot, 32).ok());
      }
      while (!running.empty()) {
        decoder->round(running);
        std::erase_if(running, [](const Slot* slot) { return slot->finish != Finish::kNone; });
      }
    } catch (const std::runtime_error&) {
      return false;
    }
    return true;
  }
};

TEST_P(FaultyRound, LeavesEverySlotUsableOrReportedLostWhereverItThrows) {
  ToyDecoder whole(3);
  std::vector<std::vector<std::int32_t>> plain;
  for (unsigned i = 0; i < 3; ++i) plain.push_back(whole.answer(prompt(i, 70), options(i)));
  bool done = false;
  int failures = 0, drafter_failures = 0, failed_drafts = 0;
  for (int n = 1; !done; ++n) {
    ASSERT_LT(n, 400);
    Fault fault;
    fault.late = GetParam();
    ToyDecoder decoder(std::make_unique<FaultyBackend>(fault), 3);
    std::vector<std::unique_ptr<Slot>> slots;
    for (unsigned i = 0; i < 3; ++i) {
      slots.push_back(std::move(*decoder->open(prompt(i, 70), options(i), DrafterKind::kMtp)));
    }
    while (!slots[2]->prefilled()) ASSERT_TRUE(decoder->prefill(*slots[2], 64).ok());
    fault.runs = 0;
    fault.fail_at = n;
    done = run(decoder, slots);
    fault.fail_at = 0;
    failures += done ? 0 : 1;
    if (fault.of_drafter) {  // no slot may notice
      EXPECT_TRUE(done) << "step " << n;
      ++drafter_failures;
      done = false;
    }
    for (int i = 0; i < 2; ++i) {
      Slot& slot = *slots[static_cast<std::size_t>(i)];
      // The tokens before the fault are right.
      const auto output = ToyDecoder::output(slot);
      ASSERT_LE(output.size(), plain[static_cast<std::size_t>(i)].size());
      EXPECT_EQ(slot.finish == Finish::kLength, output.size() == plain[static_cast<std::size_t>(i)].size())
          << n;
      EXPECT_TRUE(std::equal(output.begin(), output.end(), plain[static_cast<std::size_t>(i)].begin())) << n;
      if (fault.of_drafter) {
        EXPECT_EQ(slot.finish, Finish::kLength) << n << ": " << slot.error.message;
        failed_drafts += slot.drafter_failed ? 1 : 0;
      }
      // A timeline that is not lost can continue; an open transaction would prevent that.
      if (!slot.timeline->lost()) {
        auto txn = slot.timeline->begin(1, 1);
        ASSERT_TRUE(txn.ok()) << n << ": " << txn.error().message;
        txn->rollback();
      }
      decoder->close(slot);
    }
    decoder.finish(*slots[2]);
    EXPECT_EQ(ToyDecoder::output(*slots[2]), plain[2]) << "the slot that waited, fault at run " << n;
    decoder->close(*slots[2]);
    const auto again = static_cast<unsigned>(n) % 3;
    EXPECT_EQ(decoder.answer(prompt(again, 70), options(again), DrafterKind::kMtp), plain[again])
        << "a new slot after a fault at run " << n;
  }
  EXPECT_GT(failures, 5);
  EXPECT_GT(drafter_failures, 5);
  EXPECT_GT(failed_drafts, 5) << "the report says so";
}

INSTANTIATE_TEST_SUITE_P(When, FaultyRound, testing::Bool(),
                         [](const auto& param) { return param.param ? "AfterItsWork" : "BeforeItsWork"; });

TEST(OutOfBlocks, TheSlotThatCannotGrowFailsAloneAndSaysWhatToDo) {
  ToyDecoder whole(2);
  SlotOptions options;
  options.sampler.temperature = 1;
  options.max_tokens = 40;
  options.context = 256;
  const std::vector<std::int32_t> small = prompt(1, 10), large = prompt(2, 60);
  const auto plain_small = whole.answer(small, options);
  const auto plain_large = whole.answer(large, options);

  const ToyModel toy;
  const auto backend = make_ref_backend();
  const auto target = std::move(*backend->compile(toy.target, {128, 32}));
  const StateOptions memory{2, 5};  // the two want 49 and 99 positions, which is 2 and 4 blocks
  const auto state = std::move(*backend->make_state(toy.target.layout(), memory));
  TimelinePool pool(*state, memory);
  Round round(*target, *state, 2);
  Slot slots[2];
  for (int i = 0; i < 2; ++i) {
    slots[i].id = i;
    slots[i].options = options;
    slots[i].tokens = i == 0 ? small : large;
    slots[i].prompt_tokens = static_cast<int>(slots[i].tokens.size());
    slots[i].history.add_prompt(slots[i].tokens);
    slots[i].timeline = std::move(*Timeline::open(pool));
    while (!slots[i].prefilled()) ASSERT_TRUE(round.prefill(slots[i], 16).ok());
  }
  std::vector<Slot*> running = {&slots[1], &slots[0]};
  const CostModel costs;
  while (!running.empty()) {
    round.run(running, costs);
    std::erase_if(running, [](const Slot* slot) { return slot->finish != Finish::kNone; });
  }
  EXPECT_EQ(slots[0].finish, Finish::kLength);
  EXPECT_EQ(ToyDecoder::output(slots[0]), plain_small);
  EXPECT_EQ(slots[1].finish, Finish::kError);
  const std::string& said = slots[1].error.message;
  EXPECT_NE(said.find("key/value cache is full"), std::string::npos) << said;
  EXPECT_NE(said.find("raise --context"), std::string::npos) << said;
  const auto output = ToyDecoder::output(slots[1]);
  EXPECT_GT(output.size(), 2U);
  EXPECT_TRUE(std::equal(output.begin(), output.end(), plain_large.begin()));
}

TEST(DecoderOpen, RefusesWhatItCannotDecodeWithoutTakingASlot) {
  ToyDecoder decoder(1, {}, 64);
  const SlotOptions options;
  const auto message = [&](const std::vector<std::int32_t>& tokens) {
    const auto slot = decoder->open(tokens, options, DrafterKind::kMtp);
    return slot.ok() ? std::string() : slot.error().message;
  };
  EXPECT_NE(message({}).find("prompt is empty"), std::string::npos);
  EXPECT_NE(message({1, 101}).find("token id 101 is outside the vocabulary of 101"), std::string::npos);
  EXPECT_NE(message({-1}).find("token id -1"), std::string::npos);
  EXPECT_NE(message(std::vector<std::int32_t>(64, 1)).find("64 tokens > 63 maximum"), std::string::npos);
  const auto slot = decoder->open(std::vector<std::int32_t>(63, 1), options, DrafterKind::kMtp);
  ASSERT_TRUE(slot.ok());
  EXPECT_NE(message({1}).find("all slots are in use"), std::string::npos);
  decoder->close(**slot);
  EXPECT_TRUE(message({1}).empty());
}

TEST(DrafterNames, AreThoseOfTheCommandLine) {
  EXPECT_EQ(*DrafterKind::parse("auto"), DrafterKind::kAuto);
  EXPECT_EQ(*DrafterKind::parse("mtp"), DrafterKind::kMtp);
  EXPECT_EQ(*DrafterKind::parse("lookup"), DrafterKind::kLookup);
  EXPECT_EQ(*DrafterKind::parse("none"), DrafterKind::kNone);
  const auto wrong = DrafterKind::parse("synthetic");
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.error().message,
            "drafter 'synthetic' is unknown; choose auto, mtp, eagle3, dflash, assistant, model, recall, "
            "lookup or none");
}

}  // namespace
}  // namespace ft::test::failure_test
