// A small random model in memory with every instruction of Qwen3.5, for tests that need no files: two gated
// delta layers around one attention layer, an untied LM head, odd sizes, and a program like an MTP head.
#pragma once

#include <memory>
#include <random>
#include <vector>

#include "program/program.h"

namespace ft::test {

struct ToyOptions {
  int hidden = 48;
  int vocabulary = 101;
  int layers = 3;  // the middle one is attention
  unsigned seed = 1;
  float scale = 0.6F;  // scale of the weights; a larger one gives more varied text
  int drafts = 0;      // draft vocabulary, without the `spare` extra ids; 0: all
  int extra = 0;
  int experts = 0;  // of each layer, of which a row takes two, besides one for all rows; 0: a plain MLP
  /// With the drafters that are loaded from folders: one like EAGLE-3 with two thirds of the vocabulary, a
  /// block drafter, an assistant that reads the target's keys and values, the model itself.
  bool folders = false;
  bool walks = false;       // the block drafter is like DFlash2
  bool anchor = false;      // of `walks`: it is like DSpark
  bool only_block = false;  // of `folders` and the head, only the block drafter
};

/// Owns the weights of its programs.
class ToyModel {
 public:
  explicit ToyModel(const ToyOptions& options = {});

  Program target;
  Program head;  // Input [hidden], Capture [hidden]
  // If `folders`; the target then captures "dflash" and "eagle3" [2 hidden].
  Program context, block;      // of a block drafter
  Program features, labelled;  // of one like EAGLE-3: its rows are labelled with token ids
  Program assistant;           // over the target's layout
  ToyOptions options;

 private:
  Weight matrix(std::int64_t rows, std::int64_t cols, float scale);
  Weight ones(std::int64_t size);
  Row attention(Program& p, Row x);
  void block_drafter(const Weight& embedding, const Weight& output);
  void labelled_drafter(const Weight& embedding);
  void assistant_drafter(const Weight& embedding, const Weight& output);
  Row convolved(Row x, Row source, int side);
  Row delta(Program& p, Row x);
  Row mlp(Program& p, Row x);
  Row mixture(Program& p, Row x);

  std::mt19937 random_;
  std::vector<std::unique_ptr<std::vector<float>>> storage_;
};

}  // namespace ft::test
