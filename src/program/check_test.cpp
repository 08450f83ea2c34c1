#include "program/check.h"

#include <gtest/gtest.h>

namespace ft::check_test {
namespace {

Weight weight(std::int64_t rows, std::int64_t cols) {
  static const std::byte kData{};
  Weight made;
  made.name = "w", made.rows = rows, made.cols = cols, made.data = &kData;
  return made;
}

Attention attend(Row q, Row k, Row v) {
  Attention made;
  made.q = q, made.k = k, made.v = v;
  made.heads = made.kv_heads = 1, made.head_dim = 8;
  return made;
}

std::string problem(const Program& program) {
  const Status status = check(program);
  return status.ok() ? std::string() : status.error().message;
}

TEST(Check, AcceptsAProgramOfTheWidenedInstructions) {
  Program program;
  const Row x = program.append(Scale{program.norm(program.embed(weight(5, 8)), {}, 1e-6F), 2, {}});
  Attention first = attend(x, x, x);
  first.sliding_window = 4, first.v_norm = true;
  const Row y = program.attend(first);
  Attention second = attend(y, {}, {});
  second.shared = true, second.cache = 0;
  const Row z = program.append(Slice{program.attend(second), 2, 4, {}});
  program.logits(Logits{z, weight(3, 4), {}, {}, {1, 4, 9}, 30});
  program.sample();
  EXPECT_EQ(problem(program), "");
  ASSERT_EQ(program.layout().caches.size(), 1U) << "a shared cache is kept once";
  EXPECT_EQ(program.layout().caches[0].sliding_window, 4);
}

TEST(Check, NamesTheInstructionAndWhatIsWrong) {
  const auto refused = [](auto change) {
    Program program;
    const Row x = program.embed(weight(5, 8));
    change(program, x);
    return problem(program);
  };
  EXPECT_EQ(refused([](Program& p, Row x) { p.append(Slice{x, 4, 5, {}}); }),
            "program: instruction 1 (slice): takes columns that its row does not have");
  EXPECT_EQ(refused([](Program& p, Row x) { p.append(LocalConv{x, x, weight(2, 8), 1, 3, 0, {}}); }),
            "program: instruction 1 (local_conv): row r0 is 8 wide, expected 6");
  EXPECT_EQ(refused([](Program& p, Row x) { p.append(LocalConv{x, x, weight(2, 8), 1, 4, 2, {}}); }),
            "program: instruction 1 (local_conv): has a third side");
  EXPECT_EQ(refused([](Program& p, Row x) {
              TopKRouter route{x, 2, true, {}};
              route.selection_bias = weight(1, 8);
              p.append(route);
            }),
            "program: instruction 1 (route): has a bias for the choice and scores by softmax");
  EXPECT_EQ(refused([](Program& p, Row x) {
              p.logits(ClusterLogits{x, x, weight(6, 8), 3, {0, 1, 2, 3, 4, 5}, 0});
            }),
            "program: instruction 1 (cluster_logits): chooses no cluster, or more than there are");
  EXPECT_EQ(refused([](Program& p, Row x) {
              p.logits(x, weight(6, 8));
              p.walk(Walk{{}, weight(5, 2), weight(6, 2), 7, -1});
            }),
            "program: instruction 2 (walk): has more candidates than tokens");
  EXPECT_EQ(refused([](Program& p, Row x) {
              Attention lone = attend(x, {}, {});
              lone.shared = true;
              p.attend(lone);
            }),
            "program: instruction 1 (attend): reads a cache that no attend appends to");
  EXPECT_EQ(refused([](Program& p, Row x) { p.logits(Logits{x, weight(3, 8), {}, {}, {4, 1, 9}, 0}); }),
            "program: instruction 1 (logits): labels must ascend from 0 on");
  EXPECT_EQ(refused([](Program& p, Row) { p.norm(Row{7, 8}, {}, 1e-6F); }),
            "program: instruction 1 (norm): reads a row that nothing has written");
}

/// Two experts of width 8 and size 3 without biases.
MoeMlp experts(Row in, Row routes) {
  MoeMlp made;
  made.in = in, made.routes = routes;
  made.gate = made.up = {weight(3, 8), weight(3, 8)};
  made.down = {weight(8, 3), weight(8, 3)};
  return made;
}

TEST(Check, SinksAndBiasesHaveTheShapesOfTheirHeadsAndExperts) {
  const auto refused = [](auto change) {
    Program program;
    const Row x = program.embed(weight(5, 8));
    Attention attention = attend(x, x, x);
    attention.sinks = weight(1, 1);
    MoeMlp mixture =
        experts(x, program.append(TopKRouter{program.linear(x, {weight(2, 8)})[0], 1, true, {}, {}}));
    mixture.gate_bias = mixture.up_bias = weight(2, 3), mixture.down_bias = weight(2, 8);
    mixture.activation = Activation::kClampedSwiglu;
    change(attention, mixture);
    program.attend(attention);
    program.append(std::move(mixture));
    return problem(program);
  };
  EXPECT_EQ(refused([](Attention&, MoeMlp&) {}), "");
  EXPECT_EQ(refused([](Attention& op, MoeMlp&) { op.sinks = weight(1, 2); }),
            "program: instruction 3 (attend): w is 1x2, expected 1 values");
  EXPECT_EQ(refused([](Attention& op, MoeMlp&) { op.gains = {1, 2}, op.gain_span = 4; }), "");
  EXPECT_EQ(refused([](Attention& op, MoeMlp&) { op.gains = {1}; }),
            "program: instruction 3 (attend): has gains of queries for no positions");
  EXPECT_EQ(refused([](Attention&, MoeMlp& op) { op.down_bias = weight(2, 7); }),
            "program: instruction 4 (experts): w is 2x7, expected 16 values");
  EXPECT_EQ(refused([](Attention&, MoeMlp& op) { op.up_bias = {}; }),
            "program: instruction 4 (experts): needs biases of gate, up and down, or none");
  EXPECT_EQ(refused([](Attention&, MoeMlp& op) { op.limit = 0; }),
            "program: instruction 4 (experts): clamps to nothing");
}

TEST(Check, AProgramOverAnotherOnesStateOnlyReadsIt) {
  Program target;
  const Row x = target.embed(weight(5, 8));
  target.attend(attend(x, x, x));
  const auto with = [&](bool shared) {
    Program program = Program::over(target.layout());
    const Row q = program.embed(weight(5, 8));
    Attention own = attend(q, q, q);
    own.shared = shared;
    program.attend(own);
    return problem(program);
  };
  EXPECT_EQ(with(true), "");
  EXPECT_EQ(with(false), "program: instruction 1 (attend): writes state that is another program's");
}

TEST(Program, ListsEveryOperandAndCountsTheBytesOfAStep) {
  Program program;
  const Row x = program.embed(weight(5, 8));
  const Row y = program.linear(x, {weight(4, 8)})[0];
  program.append(Scale{y, 0.5F, {}});
  EXPECT_EQ(to_text(program),
            "   0  embed       r0[8] = w 5x8 f32\n"
            "   1  linear      r1[4] = r0[8], w 4x8 f32\n"
            "   2  scale       r2[4] = r1[4], times 0.5\n");
  EXPECT_EQ(program.bytes_per_step(), (8 + 4 * 8) * 4);
}

TEST(Check, AProgramHasASmallNumberOfCaptures) {
  Program program;
  const Row x = program.embed(weight(5, 8));
  for (std::size_t i = 0; i < kMaxCaptures; ++i) program.capture("rows" + std::to_string(i), x);
  EXPECT_EQ(problem(program), "");
  EXPECT_EQ(find_capture(program, "rows1")->number, 1);
  EXPECT_EQ(find_capture(program, "others"), nullptr);
  program.capture("one more", x);
  EXPECT_NE(problem(program).find("one capture more than a program may have"), std::string::npos);
}

}  // namespace
}  // namespace ft::check_test
