// A model on several backends (backends/split): parts of one kind give that backend's bits whatever the
// schedule of prompts, rounds, rejected rows, forks and snapshots; and every drafter is lossless on every
// division.
#include <cmath>
#include <map>
#include <random>

#include "backends/cpu/backend.h"
#include "backends/cuda/test_devices.h"
#include "backends/split/shuffled_wire.h"
#include "backends/split/tensor.h"
#include "tests/bytes_in_memory.h"
#include "tests/toy_decoder.h"

namespace ft::test::split_test {
namespace {

using Made = std::unique_ptr<Backend>;

ToyOptions toy_of(bool folders = false) {
  ToyOptions toy;
  toy.hidden = 64, toy.experts = 5, toy.folders = folders, toy.scale = 1;
  return toy;
}

Made one(const std::string& kind) {
  if (kind == "cuda") return std::move(cuda_on(cuda::kEmulatedDevice).value());
  return std::move(make_backend({.name = kind, .threads = 1}).value());
}

/// A division: the parts' kinds and their layers, or the layers whose experts are on the second part, or a
/// part of every layer on each (`ranks`; with `shuffles` over a wire that delivers late, in any order, torn).
struct Division {
  std::string name;
  std::vector<std::string> kinds;
  std::vector<int> counts = {};
  int experts = 0;
  bool ranks = false, shuffles = false;
  bool equal() const {
    return std::ranges::all_of(kinds, [this](const std::string& kind) { return kind == kinds[0]; });
  }
  bool emulated() const { return std::ranges::find(kinds, "cuda") != kinds.end(); }

  Made make(bool folders = false) const {
    std::vector<split::Part> parts;
    for (const std::string& kind : kinds) parts.push_back({kind, one(kind)});
    if (ranks) {
      split::RankGroupOptions options;
      if (shuffles) options.wire = std::make_unique<split::ShuffledWire>(11);
      return std::move(
          split::by_ranks(std::move(parts), ToyModel(toy_of(folders)).target, std::move(options)).value());
    }
    if (counts.empty())
      return std::move(split::with_experts(std::move(parts[0]), std::move(parts[1]), experts).value());
    return std::move(split::by_layers(std::move(parts), counts, ToyModel(toy_of(folders)).target, 0).value());
  }
};

std::vector<Division> divisions() {
  std::vector<Division> all = {
      {"RefLayers", {"ref", "ref"}, {1, 2}},
      {"RefEachLayer", {"ref", "ref", "ref"}, {1, 1, 1}},
      {"RefExperts", {"ref", "ref"}, {}, -1},
      {"RefExpertsOfTwoLayers", {"ref", "ref"}, {}, 2},
      {"CpuLayers", {"cpu", "cpu"}, {1, 2}},
      {"CpuExperts", {"cpu", "cpu"}, {}, -1},
      {"RefAndCpu", {"ref", "cpu"}, {1, 2}},
      {"CpuAndRef", {"cpu", "ref"}, {1, 2}},
      {"RefWithCpuExperts", {"ref", "cpu"}, {}, -1},
      {.name = "RefRanks", .kinds = {"ref", "ref"}, .ranks = true},
      {.name = "RefShuffledRanks", .kinds = {"ref", "ref", "ref", "ref"}, .ranks = true, .shuffles = true},
      {.name = "CpuRanks", .kinds = {"cpu", "cpu"}, .ranks = true}};
#if FORETOKEN_EMULATES_CUDA
  cuda::offer_emulated_device();
  for (Division& division :
       std::vector<Division>{{"CudaLayers", {"cuda", "cuda"}, {1, 2}},
                             {"CudaAndCpu", {"cuda", "cpu"}, {1, 2}},
                             {"CudaWithCpuExperts", {"cuda", "cpu"}, {}, -1},
                             {.name = "CudaRanks", .kinds = {"cuda", "cuda"}, .ranks = true}})
    all.push_back(std::move(division));
#endif
  return all;
}

/// A program on a backend, driven step by step. A sequence has the blocks and the slot of its number.
class Rig {
 public:
  static constexpr int kSequences = 3, kBlocks = 4, kRows = 40;

  explicit Rig(Made backend) : toy_(toy_of()), backend_(std::move(backend)) {
    executable_ = std::move(*backend_->compile(toy_.target, {.max_rows = kRows, .max_logit_rows = kRows}));
    state_ = std::move(
        *backend_->make_state(toy_.target.layout(), {.slots = kSequences, .blocks = kSequences * kBlocks}));
    captured_ = std::move(*backend_->make_rows(toy_.options.hidden, kRows));
    given_ = std::move(*backend_->make_rows(toy_.options.hidden, kRows));
    std::vector<float> values(static_cast<std::size_t>(toy_.options.hidden * kRows));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i));
    given_->write(0, values);
  }

  struct Part {
    int sequence = 0, rows = 1, confirmed = 1, keep = 1;
  };
  /// Logits of all rows, then the captured rows.
  std::vector<float> step(const std::vector<Part>& parts, const std::vector<std::int32_t>& tokens) {
    std::vector<Segment> segments;
    std::vector<std::int32_t> rows, places, given;  // every fourth row is one of a picture
    for (const Part& part : parts) {
      Sequence& sequence = sequences_[part.sequence];
      const auto first = static_cast<std::size_t>(part.sequence) * kBlocks;
      segments.push_back({{std::span(block_numbers()).subspan(first, kBlocks), part.sequence, sequence.replay,
                           sequence.tape},
                          sequence.length,
                          part.rows,
                          part.confirmed});
      for (int r = 0; r < part.rows; ++r) {
        rows.push_back(static_cast<std::int32_t>(rows.size()));
        places.push_back((rows.back() * 7 + 3) % kRows);
        given.push_back(rows.back() % 4 == 1 ? (rows.back() * 3 + 5) % kRows : -1);
      }
      sequence.length += part.keep, sequence.replay = part.keep - part.confirmed;
      sequence.tape = 1 - sequence.tape;
    }
    StepArgs args;
    args.tokens = tokens, args.segments = segments, args.logit_rows = rows;
    args.capture = {captured_.get(), places}, args.embeddings = {given_.get(), given};
    const StepResult result = executable_->run(args, *state_);
    std::vector<float> all(result.logits.begin(), result.logits.end());
    for (const std::int32_t place : places) {
      const std::size_t end = all.size();
      all.resize(end + static_cast<std::size_t>(toy_.options.hidden));
      captured_->read(place, std::span(all).subspan(end));
    }
    return all;
  }

  std::int64_t length(int sequence) { return sequences_[sequence].length; }
  void fork(int from, int to) {
    state_->copy_slot(from, to);
    for (int b = 0; b < kBlocks; ++b) state_->copy_block(from * kBlocks + b, to * kBlocks + b);
    sequences_[to] = sequences_[from];
  }
  void clear(int sequence) { sequences_[sequence] = {}; }
  /// As bytes and back, for another sequence; without windows there is nothing to leave out.
  void restore(int from, int to) {
    std::vector<std::byte> block(static_cast<std::size_t>(state_->block_bytes()));
    std::vector<std::byte> slot(static_cast<std::size_t>(state_->slot_bytes()));
    state_->settle();
    for (int b = 0; b < kBlocks; ++b) {
      state_->read_block(from * kBlocks + b, block);
      state_->write_block(to * kBlocks + b, block);
    }
    state_->read_slot(from, slot), state_->write_slot(to, slot);
    sequences_[to] = sequences_[from];
  }

 private:
  struct Sequence {
    std::int64_t length = 0;
    int replay = 0, tape = 0;
  };
  static const std::vector<std::int32_t>& block_numbers() {
    static const std::vector<std::int32_t> numbers = [] {
      std::vector<std::int32_t> all;
      for (int i = 0; i < kSequences * kBlocks; ++i) all.push_back(i);
      return all;
    }();
    return numbers;
  }

  ToyModel toy_;
  Made backend_;
  std::unique_ptr<Executable> executable_;
  std::unique_ptr<State> state_;
  std::unique_ptr<RowStore> captured_, given_;
  std::map<int, Sequence> sequences_;
};

/// The next random step of a schedule: one to three sequences with prompt rows, or drafts of which some are
/// kept. Before it, sometimes, a fork, a restored snapshot or a new sequence.
std::vector<Rig::Part> next_step(std::mt19937& random, std::span<Rig* const> rigs) {
  const auto below = [&](int bound) { return static_cast<int>(random() % static_cast<unsigned>(bound)); };
  const int change = below(8), from = below(Rig::kSequences), to = (from + 1 + below(2)) % Rig::kSequences;
  for (Rig* const rig : rigs) {
    if (change == 0) rig->fork(from, to);
    if (change == 1) rig->restore(from, to);
    if (change == 2) rig->clear(to);
  }
  std::vector<Rig::Part> parts;
  const int first = below(Rig::kSequences), count = 1 + below(Rig::kSequences);
  for (int i = 0; i < count; ++i) {
    Rig::Part part;
    part.sequence = (first + i) % Rig::kSequences;
    if (below(3) == 0) {
      part.rows = part.confirmed = part.keep = 1 + below(13);
    } else {
      part.rows = 1 + below(6), part.keep = 1 + below(part.rows);
    }
    const bool full = rigs[0]->length(part.sequence) + part.rows > Rig::kBlocks * kBlockRows;
    for (Rig* const rig : rigs) {
      if (full) rig->clear(part.sequence);
    }
    parts.push_back(part);
  }
  return parts;
}

class Split : public testing::TestWithParam<Division> {};

class SplitEqually : public testing::TestWithParam<Division> {};

TEST_P(SplitEqually, PartsOfOneBackendGiveItsBitsInAnySchedule) {
  Rig whole(one(GetParam().kinds[0])), divided(GetParam().make());
  Rig* const rigs[] = {&whole, &divided};
  std::mt19937 random(7);
  for (int i = 0; i < (GetParam().emulated() ? 6 : 60); ++i) {
    const std::vector<Rig::Part> parts = next_step(random, rigs);
    std::vector<std::int32_t> tokens;
    for (const Rig::Part& part : parts) {
      for (int r = 0; r < part.rows; ++r) tokens.push_back(static_cast<std::int32_t>(random() % 101));
    }
    ASSERT_EQ(whole.step(parts, tokens), divided.step(parts, tokens)) << "step " << i;
  }
}

std::vector<std::int32_t> prompt(int which, bool few) {
  std::mt19937 random(static_cast<unsigned>(which) + 3);
  std::vector<std::int32_t> tokens;
  for (int i = 0; i < (few ? 8 : 20) + 11 * which; ++i)
    tokens.push_back(static_cast<std::int32_t>(random() % 101));
  tokens.insert(tokens.end(), tokens.begin(), tokens.begin() + 8);
  return tokens;
}

SlotOptions sampled(int which, int depth, bool few) {
  SlotOptions options;
  options.max_tokens = few ? 7 : 18, options.depth = depth;
  options.sampler.temperature = which == 0 ? 0 : 0.9F;
  options.sampler.presence = which == 2 ? 0.8F : 0;
  options.sampler.seed = static_cast<std::uint64_t>(which) + 5;
  return options;
}

TEST_P(Split, EveryDrafterIsLosslessAloneInABatchAndFromASnapshot) {
  const Division& division = GetParam();
  const bool emulated = division.emulated();                      // takes seconds
  const bool folders = division.counts.size() != 3 && !emulated;  // one's assistant reads another part's keys
  ToyDecoder decoder(division.make(folders), 3, toy_of(folders), 256, 1 << 20);
  ToyDecoder alone(division.equal() ? one(division.kinds[0]) : division.make(folders), 3, toy_of(folders));
  std::vector<std::vector<std::int32_t>> plain;
  const int prompts = emulated ? 2 : 3;
  for (int i = 0; i < prompts; ++i)
    plain.push_back(alone.answer(prompt(i, emulated), sampled(i, 0, emulated)));
  std::int64_t accepted = 0, drafted = 0;
  std::vector<const char*> names = {"mtp"};
  if (!emulated) names.insert(names.end(), {"auto", "lookup"});
  if (folders) names.insert(names.end(), {"eagle3", "dflash", "assistant"});
  for (const char* name : names) {
    const DrafterKind kind(name);
    std::vector<std::unique_ptr<Slot>> slots;
    std::vector<Slot*> running;
    for (int i = 0; i < prompts; ++i) {
      slots.push_back(decoder.open(prompt(i, emulated), sampled(i, 3, emulated), kind, 9));
      running.push_back(slots.back().get());
    }
    Written written;
    ASSERT_TRUE(decoder->snapshot(*slots[0])->write_to(written));
    while (!running.empty()) {
      decoder->round(running);
      std::erase_if(running, [](const Slot* slot) { return slot->finish != Finish::kNone; });
    }
    for (int i = 0; i < prompts; ++i) {
      const Slot& slot = *slots[static_cast<std::size_t>(i)];
      EXPECT_EQ(ToyDecoder::output(slot), plain[static_cast<std::size_t>(i)]) << name << " prompt " << i;
      accepted += slot.report.accepted, drafted += slot.report.drafted;
      decoder->close(*slots[static_cast<std::size_t>(i)]);
    }
    Given stored(written.bytes);
    const Snapshot snapshot = std::move(*decoder->snapshots().read(stored));
    const auto warm = std::move(
        *decoder->open(prompt(0, emulated), sampled(0, 2, emulated), kind, {&snapshot, snapshot.high()}));
    while (!warm->prefilled()) ASSERT_TRUE(decoder->prefill(*warm, 5).ok());
    decoder.finish(*warm);
    EXPECT_EQ(ToyDecoder::output(*warm), plain[0]) << name << " from a snapshot";
    decoder->close(*warm);
  }
  EXPECT_GT(drafted, accepted) << "nothing was rejected";
}

TEST(SplitDrafter, OneThatReadsKeysOfAnotherPartIsRefused) {
  const ToyModel toy(toy_of(true));
  const Division division{"", {"ref", "ref", "ref"}, {1, 1, 1}};
  const auto compiled = division.make()->compile(toy.assistant, {});
  ASSERT_FALSE(compiled.ok());
  EXPECT_EQ(compiled.error().message,
            "the drafter reads keys and values of layers on device 2, and drafts on device 3; use another "
            "--drafter, or give these layers to the last device");
}

std::vector<Division> equal_divisions() {
  std::vector<Division> all = divisions();
  std::erase_if(all, [](const Division& division) { return !division.equal(); });
  return all;
}

INSTANTIATE_TEST_SUITE_P(Divisions, SplitEqually, testing::ValuesIn(equal_divisions()),
                         [](const auto& made) { return made.param.name; });
INSTANTIATE_TEST_SUITE_P(Divisions, Split, testing::ValuesIn(divisions()),
                         [](const auto& made) { return made.param.name; });

}  // namespace
}  // namespace ft::test::split_test
