// A program cut over ranks for tensor parallelism: each rank has its own program, with a part of the
// heads, of the outputs of each linear and of the vocabulary. Where a row must be whole, an exchange puts the
// columns of all ranks side by side. So no sum is split, and the bits equal one device's. The first
// rank embeds, takes hidden rows and answers. Each rank's program is cut at its exchanges into stages, which
// its backend compiles as any program. Owner: the caller. Cost: a few passes over the list.
#pragma once

#include <vector>

#include "backends/split/rank_plan.h"

namespace ft::split {

/// Before stage e + 1, exchange e makes a whole row of the columns that each rank sends after its stage e.
struct RankExchange {
  int width = 0;
  Layout from;
  std::vector<Row> sent, made;  // [rank]; sent: id < 0: nothing
};

struct RankStage {
  Program program;
  std::vector<int> inputs;    // rows of earlier stages, by Input::number
  std::vector<int> outputs;   // rows that later stages, exchanges or captures read, by Capture::number
  bool takes_hidden = false;  // it reads the inputs of the whole program
  bool needs_tokens = false;
  bool answers = false;
};

/// A row of a rank that outlives its stage.
struct RankRow {
  Row row;
  int first = 0, last = 0;  // stages: that makes it, that reads it last
  bool crosses = false;     // the host reads or writes it
};

struct RankPart {
  Program whole;  // with an Input for each row that an exchange makes
  std::vector<RankStage> stages;
  std::vector<RankRow> rows;
};

struct Ranks {
  RankPlan plan;
  std::vector<RankPart> parts;
  std::vector<RankExchange> exchanges;
  std::vector<Capture> captures;  // of the whole program; the first rank has their rows
};

/// `over`: the layout of each rank, for a program that reads timelines of another one; else empty.
/// kUnsupported: more rows are alive at an exchange than a program may have inputs and captures.
Result<Ranks> cut_over_ranks(const Program& program, RankPlan plan,
                             const std::vector<StateLayout>& over = {});

}  // namespace ft::split
