// The trained mixture of experts against transformers in float32: logits, greedy text, chained drafts and the
// experts that each layer chose. FORETOKEN_TRAINED names its folder; without it the tests are skipped. Where
// two experts have nearly equal scores, another order of additions may choose the other one, which changes
// logits much: the golden files list these places (`near_ties`) and the size of the change (`tie_effect`).
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "backends/registry.h"
#include "backends/test_rows.h"
#include "tests/golden_files.h"

namespace ft::test::trained_experts_test {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

class TrainedExperts : public testing::TestWithParam<const char*> {
 protected:
  static constexpr double kCpuMargin = 0.5;  // bf16 activations decide some routes otherwise

  void SetUp() override {
    const char* trained = std::getenv("FORETOKEN_TRAINED");
    if (trained == nullptr) GTEST_SKIP() << "FORETOKEN_TRAINED names no folder: nothing was compared";
    const std::string folder = std::string(trained) + "/qwen3.5-moe-tiny";
    Result<Model> model = load_model(folder, {.draft_bits = 0});
    ASSERT_TRUE(model.ok()) << model.error().message;
    model_ = std::move(*model);
    ASSERT_TRUE(model_.mtp.has_value()) << model_.mtp_head.sentence;
    backend_ = std::move(*make_backend({GetParam(), 2}));
    DecoderOptions options;
    options.context = 640;
    options.prefill_chunk = 64;
    options.logit_rows = 64;
    decoder_ = std::move(*Decoder::make(*backend_, model_, options));
    for (const auto& entry : fs::directory_iterator(folder + "/golden")) prompts_.push_back(entry.path());
    std::sort(prompts_.begin(), prompts_.end());
    ASSERT_EQ(prompts_.size(), 8U);
  }

  bool exact() const { return std::string_view(GetParam()) == "ref"; }
  double margin(const Json& tie_effect) const {
    return (exact() ? 2 * kRefError : kCpuMargin) + 2 * tie_effect.get<double>();
  }
  /// Prompts that are compared completely; the longest take a minute on ref.
  bool skips(const Json& golden) const {
    return exact() && std::getenv("FORETOKEN_FULL") == nullptr && golden["tokens"].size() > 96;
  }

  Model model_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Decoder> decoder_;
  std::vector<fs::path> prompts_;
  int compared_ = 0;
};

TEST_P(TrainedExperts, LogitsAndGreedyTextAreThoseOfTransformers) {
  for (const fs::path& path : prompts_) {
    SCOPED_TRACE(path.stem().string());
    const Json golden = read_json(path);
    if (skips(golden)) continue;
    auto tokens = golden["tokens"].get<std::vector<std::int32_t>>();
    const std::size_t prompt = tokens.size();
    const Json &greedy = golden["greedy"], &positions = golden["positions"];
    for (const Json& token : greedy["tokens"]) tokens.push_back(token.get<std::int32_t>());
    tokens.pop_back();
    const Status scored =
        decoder_->score(tokens, 64, [&](std::int64_t position, std::span<const float> logits) {
          const auto at = static_cast<std::size_t>(position);
          const Choice ours = choose(logits);
          if (at < prompt && exact()) {
            const double error = kRefError + positions["tie_effect"][at].get<double>();
            EXPECT_NEAR(ours.logit, positions["logit"][at].get<double>(), error) << at;
            EXPECT_NEAR(ours.logsumexp, positions["logsumexp"][at].get<double>(), error) << at;
          }
          if (at + 1 < prompt) return;
          const std::size_t next = at + 1 - prompt;
          if (greedy["margin"][next].get<double>() <= margin(greedy["tie_effect"][next])) return;
          EXPECT_EQ(ours.token, greedy["tokens"][next].get<std::int32_t>()) << "greedy token " << next;
          ++compared_;
        });
    ASSERT_TRUE(scored.ok()) << scored.error().message;
  }
  EXPECT_GT(compared_, 100);
}

TEST_P(TrainedExperts, ChainedDraftsAreThoseOfTransformers) {
  for (const fs::path& path : prompts_) {
    SCOPED_TRACE(path.stem().string());
    const Json golden = read_json(path);
    if (skips(golden)) continue;
    auto tokens = golden["tokens"].get<std::vector<std::int32_t>>();
    for (const Json& token : golden["greedy"]["tokens"]) tokens.push_back(token.get<std::int32_t>());
    SlotOptions options;
    options.max_tokens = 1;
    auto slot = std::move(*decoder_->open(tokens, options, DrafterKind::kMtp));
    for (const Json& item : golden["mtp"]) {
      const auto depth = static_cast<int>(item["drafts"].size());
      const std::vector<std::int32_t> drafts =
          drafts_after(*decoder_, *slot, tokens, item["pending_index"].get<std::int64_t>(), depth);
      for (std::size_t i = 0; i < drafts.size(); ++i) {
        const Json& top = item["top5"][i];
        const double ahead = top[0][1].get<double>() - top[1][1].get<double>();
        if (ahead <= margin(item["tie_effect"][i])) break;
        EXPECT_EQ(drafts[i], item["drafts"][i].get<std::int32_t>())
            << "pending " << item["pending_index"] << " draft " << i;
        ++compared_;
      }
    }
    decoder_->close(*slot);
  }
  EXPECT_GT(compared_, 20);
}

/// The program up to the route of layer `layer`, whose choice is captured. Rows keep their numbers.
Program until_route(const Program& whole, int layer) {
  Program part;
  for (const Instruction& instruction : whole.instructions()) {
    std::visit(
        [&part](const auto& op) {
          using Op = std::decay_t<decltype(op)>;
          if constexpr (requires { op.out; }) part.append(op);
          if constexpr (std::is_same_v<Op, Linear>) part.linear(op.in, op.weights);
        },
        instruction);
    const auto* route = std::get_if<TopKRouter>(&instruction);
    if (route == nullptr || layer-- > 0) continue;
    part.capture("route", route->out);
    return part;
  }
  return part;
}

TEST_P(TrainedExperts, EveryLayerChoosesTheSameExperts) {
  if (!exact()) GTEST_SKIP() << "in fewer bits than float32 many routes differ";
  int same = 0;
  for (int layer = 0; layer < model_.facts.layers; ++layer) {
    const Program program = until_route(model_.target, layer);
    const auto executable = std::move(*backend_->compile(program, {.max_rows = 512, .max_logit_rows = 1}));
    for (const fs::path& path : prompts_) {
      const Json golden = read_json(path);
      if (skips(golden)) continue;
      auto tokens = golden["tokens"].get<std::vector<std::int32_t>>();
      for (const Json& token : golden["greedy"]["tokens"]) tokens.push_back(token.get<std::int32_t>());
      const auto rows = static_cast<std::int32_t>(tokens.size());
      const auto state = std::move(*backend_->make_state(program.layout(), {1, 16}));
      const std::vector<std::int32_t> blocks = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
      const Segment segment{{blocks, 0, 0, 0}, 0, rows, rows};
      StepArgs args;
      args.tokens = tokens;
      args.segments = {&segment, 1};
      const std::vector<float> routes = run_rows(*backend_, *executable, *state, args, {}, 8).captured;
      std::set<std::pair<int, int>> undecided;
      for (const Json& tie : golden["near_ties"])
        undecided.emplace(tie["index"].get<int>(), tie["layer"].get<int>());
      for (const Json& item : golden["routing"]) {
        const auto index = item["index"].get<std::size_t>();
        if (undecided.contains({static_cast<int>(index), layer})) continue;
        const Json& expected = item["layers"][static_cast<std::size_t>(layer)];
        for (std::size_t j = 0; j < 4; ++j, ++same) {
          EXPECT_EQ(routes[index * 8 + j], expected["experts"][j].get<float>())
              << path.stem() << " token " << index << " layer " << layer;
          EXPECT_NEAR(static_cast<double>(routes[index * 8 + 4 + j]), expected["weights"][j].get<double>(),
                      1e-4);
        }
      }
    }
  }
  EXPECT_GT(same, 200);
}

INSTANTIATE_TEST_SUITE_P(Backends, TrainedExperts, testing::Values("ref", "cpu"),
                         [](const auto& param) { return std::string(param.param); });

}  // namespace
}  // namespace ft::test::trained_experts_test
