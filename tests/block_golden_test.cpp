// DFlash2 and DSpark against the published code in float32, on random drafters of odd sizes
// (tools/make_block_golden.py): the drafts of every block, with rows observed in one piece or in several, in
// every layout of the config, alone and next to another slot.
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "drafters/dflash.h"
#include "format/model_fixture.h"
#include "format/weights.h"
#include "models/draft_network.h"
#include "models/weight_source.h"
#include "tests/golden_backends.h"

namespace ft::test::block_golden_test {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

constexpr int kRows = 64, kSlots = 3;
const SamplingParams kGreedy;

Json read_json(const fs::path& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file.good()) << path;
  return Json::parse(file);
}

struct Bench {
  const char* backend;
  const char* drafter;
};

std::vector<Bench> benches() {
  std::vector<Bench> all;
  for (const char* backend : golden_backends())
    for (const char* drafter : {"dflash2", "dflash2_mixed", "dspark"}) all.push_back({backend, drafter});
  return all;
}

class BlockGolden : public testing::TestWithParam<Bench> {
 protected:
  fs::path folder() const { return fs::path("tests/golden/block_drafters") / GetParam().drafter; }

  void SetUp() override {
    if (on_cuda(GetParam().backend))
      if (const std::string why = why_not(GetParam().backend); !why.empty()) GTEST_SKIP() << why;
    load(folder().string());
    if (!emulated()) return;
    Json few = Json::array();  // a step of the emulator takes long
    for (const Json& one : golden_["cases"])
      if (one["rows"].get<int>() <= 14) few.push_back(one);
    golden_["cases"] = few;
  }
  static bool emulated() { return GetParam().backend == std::string_view("emulated"); }

  void load(const std::string& directory) {
    drafter_.reset();
    golden_ = read_json(folder() / "golden.json");
    const Json config = read_json(folder() / "config.json");
    target_ = {};
    target_.facts.width = config["hidden_size"], target_.facts.vocabulary = config["vocab_size"];
    target_.facts.layers = config["num_target_layers"];
    target_.checkpoint = std::make_unique<format::Checkpoint>(
        std::move(*format::Checkpoint::open((folder() / "target").string())));
    target_.embedding = stored("embedding", target_.facts.vocabulary, target_.facts.width);
    target_.lm_head = stored("lm_head", target_.facts.vocabulary, target_.facts.width);
    const DraftFolder given[] = {{"dflash", directory}};
    auto opened = open_drafters(given, target_.facts);
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    auto network = build_drafter(opened->front(), target_);
    ASSERT_TRUE(network.ok()) << network.error().message;
    network_ = std::move(*network);
    backend_ = backend_of(GetParam().backend);
    captured_ = std::move(*CapturedRows::make(*backend_, DflashDrafter::request(network_), kSlots, kRows));
    DflashDrafter::Options options;
    options.slots = kSlots, options.blocks = 16, options.memories = 4, options.context = 64;
    auto made = DflashDrafter::make(*backend_, network_, *captured_, options);
    ASSERT_TRUE(made.ok()) << made.error().message;
    drafter_ = std::move(*made);
  }

  Weight stored(const char* name, std::int64_t rows, std::int64_t cols) {
    const format::TensorView* tensor = target_.checkpoint->find(name);
    EXPECT_NE(tensor, nullptr) << name;
    Weight weight;
    weight.name = name, weight.format = Format::kBf16, weight.rows = rows, weight.cols = cols;
    weight.data = tensor->bytes.data();
    return weight;
  }

  /// The slot has observed the first `rows` rows of the target, `piece` at a time.
  void observe(int slot, int rows, int piece) {
    const format::TensorView* features = target_.checkpoint->find("features");
    const auto width = static_cast<std::size_t>(captured_->width());
    std::vector<float> row(width);
    EXPECT_TRUE(drafter_->open(slot, 0).ok());
    for (int at = 0; at < rows; at += piece) {
      const int count = std::min(piece, rows - at);
      for (int i = at; i < at + count; ++i) {
        for (std::size_t c = 0; c < width; ++c) {
          std::uint16_t half = 0;
          std::memcpy(&half, features->bytes.data() + 2 * (static_cast<std::size_t>(i) * width + c), 2);
          const std::uint32_t whole = std::uint32_t{half} << 16;
          std::memcpy(&row[c], &whole, 4);
        }
        captured_->store().write(captured_->place(slot, i), row);
      }
      const std::vector<std::int32_t> tokens(static_cast<std::size_t>(count), 1);
      EXPECT_TRUE(drafter_->observe(slot, tokens, true).ok());
      if (at + count < rows) {
        EXPECT_TRUE(drafter_->save(slot).ok());  // it observes the rows
      }
    }
  }

  struct Asked {
    int slot;
    std::vector<std::int32_t> tokens;  // the last one is pending
    int depth;
    std::vector<std::int32_t> drafts = {};
  };
  /// All of them in one pass.
  void propose(std::vector<Asked>& asked, const SamplingParams& sampler = kGreedy, bool rejection = false) {
    std::vector<std::int32_t> round(kSlots * kMaxDraftTokens);
    std::vector<std::array<Distribution, kMaxDraftTokens>> proposals(asked.size());
    std::vector<DraftSlot> slots(asked.size());
    std::vector<DraftSlot*> all;
    for (std::size_t i = 0; i < asked.size(); ++i) {
      slots[i].id = asked[i].slot, slots[i].tokens = asked[i].tokens, slots[i].depth = asked[i].depth;
      slots[i].sample.sampler = &sampler;
      slots[i].sample.position = std::ssize(asked[i].tokens);
      slots[i].store = static_cast<std::int32_t>(i) * kMaxDraftTokens;
      slots[i].drafts = std::span(round).subspan(i * kMaxDraftTokens, kMaxDraftTokens);
      slots[i].proposal = &proposals[i];
      slots[i].rejection = rejection;
      EXPECT_EQ(drafter_->plan(slots[i]), network_.most_drafts);
      all.push_back(&slots[i]);
    }
    const Status status = drafter_->propose(all, round);
    ASSERT_TRUE(status.ok()) << status.error().message;
    drafter_->collect();
    for (std::size_t i = 0; i < asked.size(); ++i)
      asked[i].drafts.assign(slots[i].drafts.begin(), slots[i].drafts.begin() + slots[i].drafted);
  }

  static SamplingParams sampled() {
    SamplingParams sampler;
    sampler.temperature = 1.1F, sampler.seed = 5;
    return sampler;
  }

  Asked asked(int slot, const Json& one) {
    std::vector<std::int32_t> tokens(one["rows"].get<std::size_t>(), 1);
    tokens.push_back(one["pending"].get<std::int32_t>());
    return {slot, tokens, static_cast<int>(one["drafts"].size())};
  }

  /// Compares a draft while all drafts before it equal the published ones, because only then do the scores. A
  /// choice whose margin is smaller than the error of this backend may differ.
  void expect_drafts(const Json& one, const std::vector<std::int32_t>& drafts) {
    ASSERT_EQ(drafts.size(), one["drafts"].size());
    for (std::size_t i = 0; i < drafts.size(); ++i) {
      const bool sure = one["leads"][i].get<double>() >= error();
      const bool same = drafts[i] == one["drafts"][i].get<std::int32_t>();
      if (!sure && !same) return;
      EXPECT_TRUE(same) << one["rows"] << " rows, pending " << one["pending"] << ", draft " << i << ": "
                        << drafts[i] << " in place of " << one["drafts"][i];
      compared_ += sure ? 1 : 0;
    }
  }
  static bool exact() { return GetParam().backend == std::string_view("ref"); }
  /// ref computes in float32, like the published code; the others round rows and keep 16-bit keys and values.
  static double error() { return exact() ? 0 : 0.15; }
  /// Counts the drafts of one run over all cases.
  static int least() { return exact() ? 59 : emulated() ? 2 : 10; }

  Json golden_;
  Model target_;
  DraftNetwork network_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<CapturedRows> captured_;
  std::unique_ptr<DflashDrafter> drafter_;
  int compared_ = 0;
};

TEST_P(BlockGolden, BlocksAreThoseOfThePublishedCode) {
  for (const int piece : emulated() ? std::vector<int>{7} : std::vector<int>{64, 7}) {
    for (const Json& one : golden_["cases"]) {
      observe(1, one["rows"], piece);
      std::vector<Asked> block = {asked(1, one)};
      propose(block);
      expect_drafts(one, block[0].drafts);
      drafter_->close(1);
    }
  }
  EXPECT_GT(compared_, (emulated() ? 1 : 2) * least());
}

TEST_P(BlockGolden, ASlotDraftsBesideOthersAsItDoesAlone) {
  const Json& cases = golden_["cases"];
  for (std::size_t i = 0; i + 2 < cases.size(); i += 3) {
    std::vector<Asked> together, alone;
    for (int slot = 0; slot < kSlots; ++slot) {
      const Json& one = cases[i + static_cast<std::size_t>(slot)];
      observe(slot, one["rows"], 64);
      together.push_back(asked(slot, one));
    }
    for (const SamplingParams& sampler : {kGreedy, sampled()}) {
      if (emulated() && sampler.temperature == 0) continue;  // slow
      alone = together;
      propose(together, sampler);
      for (Asked& one : alone) {
        std::vector<Asked> single = {one};
        propose(single, sampler);
        one.drafts = single[0].drafts;
      }
      for (std::size_t slot = 0; slot < together.size(); ++slot)
        EXPECT_EQ(together[slot].drafts, alone[slot].drafts);
    }
  }
}

TEST_P(BlockGolden, TheHostWalksAsTheDeviceDoes) {
  // At temperature 0 rejection sampling on the host draws the same tokens one by one as the pass.
  for (const Json& one : golden_["cases"]) {
    observe(0, one["rows"], 64);
    std::vector<Asked> device = {asked(0, one)}, host = device;
    propose(device);
    propose(host, kGreedy, true);
    EXPECT_EQ(device[0].drafts, host[0].drafts);
  }
}

TEST_P(BlockGolden, AMemoryOfAnyLengthDraftsAsAFreshSlot) {
  const Json& longest = golden_["cases"].back();
  observe(0, longest["rows"], 64);
  const auto memory = std::move(*drafter_->save(0));
  for (const Json& one : golden_["cases"]) {
    const auto length = one["rows"].get<std::int64_t>();
    ASSERT_TRUE(drafter_->restore(1, *memory, length).ok());
    std::vector<Asked> block = {asked(1, one)};
    propose(block);
    expect_drafts(one, block[0].drafts);
    drafter_->close(1);
  }
  EXPECT_GT(compared_, least());
}

TEST_P(BlockGolden, TheLayoutOfSpeculatorsDraftsTheSame) {
  if (emulated()) GTEST_SKIP() << "a layout is read in the same way for every backend";
  const Json config = read_json(folder() / "config.json");
  const Json& own = config["dflash_config"];
  Json other = {{"architectures", config["architectures"]}, {"transformer_layer_config", config}};
  other["transformer_layer_config"].erase("dflash_config");
  other["transformer_layer_config"].erase("is_causal");
  for (const auto& [key, value] : own.items()) other[key] = value;
  for (const char* key : {"target_layer_ids", "causal", "shift_label", "projector_type"}) other.erase(key);
  for (const Json& layer : own["target_layer_ids"])
    other["aux_hidden_state_layer_ids"].push_back(layer.get<int>() + 1);
  const bool spark = GetParam().drafter == std::string_view("dspark");
  other["speculators_model_type"] = spark ? "dspark" : "dflash2";
  const format::TemporaryFolder copy;
  copy.write("config.json", other.dump());
  fs::copy_file(folder() / "model.safetensors", copy.file("model.safetensors"));
  const Json cases = golden_["cases"];
  load(copy.path());
  golden_["cases"] = cases;
  for (const Json& one : golden_["cases"]) {
    observe(0, one["rows"], 64);
    std::vector<Asked> block = {asked(0, one)};
    propose(block);
    expect_drafts(one, block[0].drafts);
  }
  EXPECT_GT(compared_, least());
}

INSTANTIATE_TEST_SUITE_P(Drafters, BlockGolden, testing::ValuesIn(benches()), [](const auto& which) {
  return name_of(which.param.backend) + "_" + which.param.drafter;
});

}  // namespace
}  // namespace ft::test::block_golden_test
