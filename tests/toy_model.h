// A small random model in memory, with every instruction that Qwen3.5 uses, for tests that need no files: two
// gated delta layers around one attention layer, an untied head, odd sizes, and an MTP-like head program.
#pragma once

#include <memory>
#include <random>
#include <vector>

#include "program/program.h"

namespace ft::test {

struct ToyOptions {
  int hidden = 48;
  int vocabulary = 101;
  int layers = 3;  // the middle one attends
  unsigned seed = 1;
  float scale = 0.6F;  // of the weights; larger: more varied text
  int drafts = 0;      // ids that the head may draft, beside `spare` others; 0: all
  int spare = 0;
};

/// Owns the weights that its programs point into.
class ToyModel {
 public:
  explicit ToyModel(const ToyOptions& options = {});

  Program trunk;
  Program head;  // Input [hidden], Tap [hidden]
  ToyOptions options;

 private:
  Weight matrix(std::int64_t rows, std::int64_t cols, float scale);
  Weight ones(std::int64_t size);
  Row attention(Program& p, Row x);
  Row delta(Program& p, Row x);
  Row mlp(Program& p, Row x);

  std::mt19937 random_;
  std::vector<std::unique_ptr<std::vector<float>>> storage_;
};

}  // namespace ft::test
