// The arguments of kernels/draft.cu (backends/cuda/arguments.h has the others).
#pragma once

#include "backends/cuda/arguments.h"

namespace ft::cuda {

struct LocalConvArgs {
  StepTable step;
  View in, coefficients, out;
  const float* base;  // [2 * taps][in.width]
  int taps, groups, group_size, side;
};

/// A matrix of which rows are read one by one, as embed reads them.
struct TablePlace {
  const unsigned char* records;  // packed affine rows, or null
  const void* plain;             // bfloat16 or float rows
  int stride, wide;              // wide: floats
  int groups, bits, group, scale_type;
};

struct ClusterArgs {
  StepTable step;
  View in, routes, logits;
  TablePlace table;
  const int* tokens;  // [clusters][size]
  int chosen, size;
  float softcap;
};

constexpr int kMaxWalked = 64;      // candidates of a row
constexpr int kMaxWalkRank = 1024;  // of the tables
struct WalkArgs {
  SampleArgs sample;
  View factors;  // data null: ones
  TablePlace predecessor, successor;
  int rank, candidates, excluded, logit_rows;
  float* part_values;  // [logit rows][parts][candidates] in order
  int* part_columns;   // -1: there are no more
  float* values;       // [logit rows][candidates] in order
  int* columns;
};

}  // namespace ft::cuda
