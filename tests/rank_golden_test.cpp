// Each family's small golden model on ranks of tensor parallelism: the logits of one device, bit for bit.
#include <gtest/gtest.h>
#include <random>

#include "backends/registry.h"
#include "models/model.h"

namespace ft::test::rank_golden_test {
namespace {

class RankGolden : public testing::TestWithParam<const char*> {};

/// Logits of a prompt in two chunks and of rows that a draft would have.
std::vector<float> logits_of(const BackendOptions& options, const Program& program, int vocabulary) {
  const auto backend = std::move(make_backend(options).value());
  const auto executable = std::move(*backend->compile(program, {.max_rows = 16, .max_logit_rows = 16}));
  const auto state = std::move(*backend->make_state(program.layout(), {.slots = 1, .blocks = 2}));
  const std::int32_t blocks[] = {0, 1};
  std::vector<float> all;
  std::mt19937 random(5);
  std::int64_t position = 0;
  for (const std::int32_t count : {16, 9, 4}) {
    std::vector<std::int32_t> tokens, rows;
    for (std::int32_t r = 0; r < count; ++r) {
      tokens.push_back(static_cast<std::int32_t>(random() % static_cast<unsigned>(vocabulary)));
      rows.push_back(r);
    }
    const Segment segment{{blocks, 0, 0, 0}, position, count, count == 4 ? 1 : count};
    StepArgs args;
    args.tokens = tokens, args.segments = {&segment, 1}, args.logit_rows = rows;
    const StepResult result = executable->run(args, *state);
    all.insert(all.end(), result.logits.begin(), result.logits.end());
    position += count;
  }
  return all;
}

TEST_P(RankGolden, RanksGiveTheLogitsOfOneDevice) {
  const Result<Model> model = load_model(GetParam(), {.draft_bits = 0});
  ASSERT_TRUE(model.ok()) << model.error().message;
  const auto vocabulary = static_cast<int>(model->facts.vocabulary);
  for (const char* kind : {"ref", "cpu"}) {
    BackendOptions options{.name = kind, .threads = 1};
    options.target = &model->target;
    const std::vector<float> whole = logits_of(options, model->target, vocabulary);
    for (const int ranks : {2, 4}) {
      std::string devices = kind;
      for (int r = 1; r < ranks; ++r) devices += "," + std::string(kind);
      options.settings = {{"split", "tensor"}, {"devices", devices}};
      EXPECT_TRUE(whole == logits_of(options, model->target, vocabulary)) << ranks << " ranks of " << kind;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Families, RankGolden,
    testing::Values("tests/golden/odd", "tests/golden/odd_experts", "tests/golden/mtp/qwen3_next",
                    "tests/golden/mtp/glm4_moe", "tests/golden/llama/llama", "tests/golden/llama/granite",
                    "tests/golden/llama/ministral3", "tests/golden/llama/qwen2",
                    "tests/golden/llama/qwen3_moe", "tests/golden/llama/smollm3", "tests/golden/gemma4/odd",
                    "tests/golden/gemma4/odd_e", "tests/golden/gemma4/odd_moe", "tests/golden/gpt_oss/plain",
                    "tests/golden/gpt_oss/mxfp4.gguf"),
    [](const auto& made) {
      std::string name = std::string(made.param).substr(std::string("tests/golden/").size());
      for (char& letter : name) letter = std::isalnum(static_cast<unsigned char>(letter)) != 0 ? letter : '_';
      return name;
    });

}  // namespace
}  // namespace ft::test::rank_golden_test
