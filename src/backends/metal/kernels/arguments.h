// The arguments of a kernel other than buffers: plain numbers, the same bytes in Metal, C++ and CUDA. The
// rows of a matrix are `stride` floats apart. Included by the kernels and by the host.
#pragma once

typedef unsigned int FtNumber;  // 32 bits, whatever the language

struct LinearArgs {
  FtNumber rows, inputs, outputs, x_stride, y_stride;
  FtNumber group;       // inputs of one scale; 32 for plain weights
  FtNumber scales;      // how they are stored: kScalesBf16 ...
  FtNumber chosen;      // linear_routed: experts of a row
  FtNumber x_per_row;   // linear_routed: 1: all experts of a row read one row of x
  FtNumber codes_each;  // linear_routed: words of codes of one expert
  FtNumber scales_each;
  FtNumber experts;
};

/// Norms of rows or of their equal parts.
struct NormArgs {
  FtNumber rows, width, x_stride, y_stride;
  FtNumber gate_stride;  // gated_norm
  FtNumber weighted;     // 0: times one
  float eps;
};

struct CombineArgs {
  FtNumber rows, width, x_stride, other_stride, y_stride;
  float factor;
};

struct EmbedArgs {
  FtNumber rows, width, y_stride, group, scales;
};

/// A row whose token is drafted (program/sample_row.h), without history and mask.
struct DraftRowArgs {
  FtNumber seed_low, seed_high, position_low, position_high, stream;
  int store;  // place in the round's tokens; -1: none
  int top_k;  // 0: all
  float temperature, top_p, min_p;
  FtNumber biases;
  int bias_tokens[4];
  float bias_values[4];
};

/// The same for all rows: logits of a row, parts that they are cut into, whether columns have separate ids.
struct DraftArgs {
  FtNumber columns, parts, labelled;
  FtNumber kept;     // logits of a part that top-k keeps
  FtNumber limited;  // 0: no row has a filter
};

/// Rows by place: x is [rows or places, width].
struct PlaceArgs {
  FtNumber rows, width, x_stride, y_stride;
};

struct RouteArgs {
  FtNumber rows, experts, chosen, x_stride, y_stride, renormalised, scaled;
};

struct ExpertsArgs {
  FtNumber rows, width, chosen, y_stride, route_stride;
};

/// One timeline of a step: first row, number of rows, rows before the drafts, position of the first row.
struct SegmentArgs {
  int first_row, rows, confirmed, position, slot, replay, tape, fresh;
};

struct ConvArgs {
  FtNumber width, taps, x_stride, y_stride;
  FtNumber slot_floats, base;  // of the state: floats of a slot, and where this window is in it
};

struct DeltaArgs {
  FtNumber rows, key_heads, value_heads, key_dim, value_dim;
  FtNumber x_stride, a_stride, b_stride, y_stride;
  FtNumber slot_floats, base, tape;  // of the state: floats of a slot, where the matrix and the tape are
};

struct AttendArgs {
  FtNumber rows, heads, kv_heads, head_dim, rotary;
  FtNumber q_stride, k_stride, v_stride, y_stride;
  FtNumber gated, normalises_q, normalises_k, normalises_v, shared;
  FtNumber chunks, first_row;   // of a launch: chunks of kChunkRows positions, first row of the step
  FtNumber block_halves, base;  // of the cache: 16-bit numbers of a block, where this layer is in it
  float eps, scale;
};

/// Where a row is: its position, the positions that it sees, and the first of its blocks in the list.
struct RowArgs {
  int position, seen_first, seen_last, block;
};
