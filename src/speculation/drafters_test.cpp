// Drafters that are loaded from folders, and the choice among all of them, on the toy model: with every
// drafter the answer equals plain decoding's, and a drafter that fails costs only its drafts.
#include <random>
#include <stdexcept>

#include "program/forwarding_backend.h"
#include "tests/late_backend.h"
#include "tests/toy_decoder.h"

namespace ft::test::drafters_test {
namespace {

enum class Design { kDflash, kDflash2, kDspark };  // of the block drafter
constexpr Design kDesigns[] = {Design::kDflash, Design::kDflash2, Design::kDspark};

ToyOptions with_folders(Design design = Design::kDflash) {
  ToyOptions options;
  options.folders = true;
  options.walks = design != Design::kDflash, options.anchor = design == Design::kDspark;
  return options;
}

std::vector<std::int32_t> prompt(unsigned seed, int count) {
  std::mt19937 random(seed);
  std::vector<std::int32_t> tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(static_cast<std::int32_t>(random() % 100));
  return tokens;
}

SlotOptions options_of(unsigned seed, int depth, bool penalties = false) {
  SlotOptions options;
  options.max_tokens = 30;
  options.depth = depth;
  options.sampler.temperature = seed % 2 == 0 ? 0 : 0.8F;
  options.sampler.seed = seed;
  if (penalties) options.sampler.presence = 0.7F, options.sampler.repetition = 1.2F;
  return options;
}

constexpr DrafterKind kRoundRobin{DrafterSet::kRoundRobin};
const DrafterKind kKinds[] = {DrafterKind::kEagle3, DrafterKind::kDflash, DrafterKind::kAssistant,
                              DrafterKind::kModel,  DrafterKind::kAuto,   kRoundRobin};
constexpr unsigned kKindCount = std::size(kKinds);

class FolderDrafters : public testing::TestWithParam<bool> {
 protected:
  std::unique_ptr<Backend> backend() {
    return GetParam() ? make_late_backend(make_ref_backend(), report_) : make_ref_backend();
  }
  /// One slot for each drafter.
  void expect_batch(Design design) {
    ToyDecoder decoder(backend(), kKindCount, with_folders(design));
    std::vector<std::vector<std::int32_t>> plain;
    for (unsigned i = 0; i < kKindCount; ++i) {
      plain.push_back(decoder.answer(prompt(i, 40 + static_cast<int>(9 * i)), options_of(i, 4)));
    }
    std::vector<std::unique_ptr<Slot>> slots;
    std::vector<Slot*> running;
    for (unsigned i = 0; i < kKindCount; ++i) {
      slots.push_back(decoder.open(prompt(i, 40 + static_cast<int>(9 * i)), options_of(i, 4), kKinds[i]));
      running.push_back(slots.back().get());
    }
    while (!running.empty()) {
      decoder->round(running);
      std::erase_if(running, [](const Slot* slot) { return slot->finish != Finish::kNone; });
    }
    for (unsigned i = 0; i < kKindCount; ++i) {
      EXPECT_EQ(ToyDecoder::output(*slots[i]), plain[i]) << kKinds[i].name();
      EXPECT_GT(slots[i]->report.drafted, 0) << kKinds[i].name();
      decoder->close(*slots[i]);
    }
  }

  LateReport report_;
};

TEST_P(FolderDrafters, ChangeNoTokenAtAnyDepth) {
  ToyDecoder with_block(backend(), 1, with_folders()),
      with_walk(backend(), 1, with_folders(Design::kDflash2)),
      from_anchor(backend(), 1, with_folders(Design::kDspark));
  std::int64_t drafted = 0, accepted = 0;
  // The last four: DFlash2 and DSpark, and drafters that change with each.
  for (unsigned i = 0; i < kKindCount + 4; ++i) {
    ToyDecoder& decoder = i < kKindCount ? with_block : i < kKindCount + 2 ? with_walk : from_anchor;
    const DrafterKind kind = i < kKindCount              ? kKinds[i]
                             : (i - kKindCount) % 2 == 0 ? DrafterKind::kDflash
                                                         : kRoundRobin;
    for (const int depth : {1, 3, kMaxDraftTokens, -1}) {
      for (const bool penalties : {false, true}) {
        const auto seed = static_cast<unsigned>(depth + 2);
        const SlotOptions options = options_of(seed, depth, penalties);
        const auto plain = decoder.answer(prompt(seed, 70), options);
        const auto slot = decoder.open(prompt(seed, 70), options, kind, 33);
        decoder.finish(*slot);
        EXPECT_EQ(ToyDecoder::output(*slot), plain) << kind.name() << " depth " << depth;
        drafted += slot->report.drafted, accepted += slot->report.accepted;
        decoder->close(*slot);
      }
    }
  }
  EXPECT_GT(accepted, 50);
  EXPECT_GT(drafted, accepted);
}

TEST_P(FolderDrafters, ChangeNoTokenOfABatchOfDifferentDrafters) {
  for (const Design design : kDesigns) expect_batch(design);
}

/// Rows that a block leaves free get the tokens that lookup finds after its drafts.
TEST_P(FolderDrafters, TextAfterABlockChangesNoToken) {
  ToyOptions toy = with_folders();
  toy.only_block = true;
  toy.vocabulary = 5;  // short texts repeat
  ToyDecoder decoder(backend(), 1, toy);
  std::int64_t with_text = 0;
  for (unsigned seed = 0; seed < 12; ++seed) {
    SlotOptions options = options_of(seed, seed % 4 == 3 ? -1 : kMaxDraftTokens, seed % 3 == 0);
    options.max_tokens = 60;
    std::vector<std::int32_t> text = prompt(seed, 30);
    for (std::int32_t& token : text) token %= toy.vocabulary;
    const auto plain = decoder.answer(text, options);
    const auto slot = decoder.open(text, options, DrafterKind::kAuto);
    std::int64_t authored = 0, accepted = 0, drafting = 0;
    slot->on_token = [&](std::int32_t, std::span<const float>, std::string_view by) {
      authored += by == "lookup" ? 1 : 0;
      return false;
    };
    decoder.finish(*slot);
    EXPECT_EQ(ToyDecoder::output(*slot), plain) << seed;
    for (const DrafterShare& share : slot->report.by_drafter) {
      accepted += share.name == "lookup" ? share.accepted : 0;
      drafting += share.rounds;
    }
    EXPECT_EQ(authored, accepted) << seed;
    with_text += std::max<std::int64_t>(0, drafting - slot->report.rounds);  // rounds of two drafters
    decoder->close(*slot);
  }
  EXPECT_GT(with_text, 0);
}

INSTANTIATE_TEST_SUITE_P(Backends, FolderDrafters, testing::Bool(),
                         [](const auto& param) { return param.param ? "late" : "ref"; });

TEST(ModelDrafter, OfTheTargetItselfIsAlwaysRight) {
  ToyDecoder decoder(2, with_folders());
  for (unsigned seed = 0; seed < 4; ++seed) {
    SlotOptions options = options_of(seed, 4);
    options.max_tokens = 25;
    const auto slot = decoder.open(prompt(seed, 50), options, DrafterKind::kModel, 17);
    decoder.finish(*slot);
    EXPECT_EQ(slot->report.accepted, slot->report.drafted) << seed;
    EXPECT_EQ(slot->report.rounds, 5) << seed;
    decoder->close(*slot);
  }
}

/// All of them, each design of the block drafter too, have observed the rows of the first.
TEST(FolderDraftersMemory, ASnapshotDraftsAsTheSequenceThatItWasTakenFrom) {
  constexpr std::pair<DrafterKind, Design> kAll[] = {
      {DrafterKind::kEagle3, Design::kDflash},  {DrafterKind::kModel, Design::kDflash},
      {DrafterKind::kAuto, Design::kDflash},    {DrafterKind::kDflash, Design::kDflash},
      {DrafterKind::kDflash, Design::kDflash2}, {DrafterKind::kDflash, Design::kDspark}};
  for (const auto& [kind, design] : kAll) {
    ToyDecoder decoder(make_ref_backend(), 2, with_folders(design), 256, 1 << 22);
    const SlotOptions options = options_of(1, 3);
    const auto cold = decoder.open(prompt(5, 80), options, kind);
    const Snapshot snapshot = std::move(*decoder->snapshot(*cold));
    ASSERT_NE(snapshot.draft, nullptr);
    decoder.finish(*cold);
    const std::int64_t length = snapshot.high();
    auto warm = std::move(*decoder->open(prompt(5, 80), options, kind, {&snapshot, length}));
    while (!warm->prefilled()) ASSERT_TRUE(decoder->prefill(*warm, 64).ok());
    decoder.finish(*warm);
    EXPECT_EQ(ToyDecoder::output(*warm), ToyDecoder::output(*cold)) << kind.name();
    EXPECT_EQ(warm->report.drafted, cold->report.drafted) << kind.name();
    EXPECT_EQ(warm->report.accepted, cold->report.accepted) << kind.name();
    decoder->close(*warm);
    decoder->close(*cold);
  }
}

/// The assistant keeps one row of the target and no memory: it drafts from the second round on.
TEST(FolderDraftersMemory, AnAssistantDraftsAfterTheFirstRoundOfASnapshot) {
  ToyDecoder decoder(make_ref_backend(), 2, with_folders(), 256, 1 << 22);
  const SlotOptions options = options_of(1, 3);
  const auto cold = decoder.open(prompt(5, 80), options, DrafterKind::kAssistant);
  const Snapshot snapshot = std::move(*decoder->snapshot(*cold));
  decoder.finish(*cold);
  const auto plain = ToyDecoder::output(*cold);
  decoder->close(*cold);
  const auto warm = std::move(
      *decoder->open(prompt(5, 80), options, DrafterKind::kAssistant, {&snapshot, snapshot.high()}));
  while (!warm->prefilled()) ASSERT_TRUE(decoder->prefill(*warm, 64).ok());
  decoder.finish(*warm);
  EXPECT_EQ(ToyDecoder::output(*warm), plain);
  EXPECT_GT(warm->report.drafted, 0);
  decoder->close(*warm);
}

TEST(RecallDrafterRounds, AnAnswerThatWasGivenBeforeIsDraftedFromMemoryForItsUserOnly) {
  ToyDecoder decoder(2, with_folders());
  SlotOptions options = options_of(0, 8);
  options.max_tokens = 60;
  options.owner = 7;
  const auto before = decoder.answer(prompt(9, 40), options, DrafterKind::kRecall);
  const auto again = decoder.open(prompt(9, 40), options, DrafterKind::kRecall);
  decoder.finish(*again);
  EXPECT_EQ(ToyDecoder::output(*again), before);
  EXPECT_LT(again->report.rounds, 20);
  decoder->close(*again);
  options.owner = 8;
  const auto other = decoder.open(prompt(9, 40), options, DrafterKind::kRecall);
  decoder.finish(*other);
  EXPECT_EQ(other->report.drafted, 0) << "the text of another user";
  decoder->close(*other);
}

/// Throws at one step of one of its programs.
struct Fault {
  int runs = 0, fail_at = 0;
  bool of_target = false;
};

class FaultyExecutable final : public ForwardingExecutable {
 public:
  FaultyExecutable(std::unique_ptr<Executable> executable, bool target, Fault& fault)
      : ForwardingExecutable(std::move(executable)), target_(target), fault_(fault) {}
  void submit(const StepArgs& args, State& state) override {
    if (++fault_.runs == fault_.fail_at) {
      fault_.of_target = target_;
      throw std::runtime_error("the device is gone");
    }
    inner().submit(args, state);
  }

 private:
  bool target_;
  Fault& fault_;
};

/// The target is the program that a decoder compiles first.
class FaultyBackend final : public ForwardingBackend {
 public:
  explicit FaultyBackend(Fault& fault) : ForwardingBackend(make_ref_backend()), fault_(fault) {}
  Result<std::unique_ptr<Executable>> compile(const Program& program,
                                              const CompileOptions& options) override {
    FT_ASSIGN(std::unique_ptr<Executable> executable, inner().compile(program, options));
    return std::unique_ptr<Executable>(
        std::make_unique<FaultyExecutable>(std::move(executable), compiled_++ == 0, fault_));
  }

 private:
  Fault& fault_;
  int compiled_ = 0;
};

TEST(FolderDraftersFailure, CostsOnlyDraftsWhereverADrafterThrows) {
  ToyDecoder whole(1, with_folders());
  SlotOptions options = options_of(1, 3);
  options.max_tokens = 10;
  const auto plain = whole.answer(prompt(3, 20), options);
  int failed = 0;
  std::vector<std::pair<DrafterKind, Design>> all = {{DrafterKind::kDflash, Design::kDflash2},
                                                     {DrafterKind::kDflash, Design::kDspark}};
  for (const DrafterKind kind : kKinds) all.emplace_back(kind, Design::kDflash);
  for (const auto& [kind, design] : all) {
    for (int at = 1;; ++at) {
      Fault fault;
      ToyDecoder decoder(std::make_unique<FaultyBackend>(fault), 1, with_folders(design));
      const auto slot = decoder.open(prompt(3, 20), options, kind);
      fault.runs = 0;
      fault.fail_at = at;
      try {
        decoder.finish(*slot);
      } catch (const std::runtime_error&) {
        ASSERT_TRUE(fault.of_target) << kind.name() << " step " << at;
        continue;  // the target's own step: the request is lost, as it must be
      }
      EXPECT_EQ(ToyDecoder::output(*slot), plain) << kind.name() << " step " << at;
      const bool over = fault.runs < at;
      failed += over ? 0 : 1;
      decoder->close(*slot);
      fault.fail_at = 0;
      EXPECT_EQ(decoder.answer(prompt(3, 20), options, kind), plain) << "a new slot after step " << at;
      if (over) break;
    }
  }
  EXPECT_GT(failed, 15);
}

}  // namespace
}  // namespace ft::test::drafters_test
