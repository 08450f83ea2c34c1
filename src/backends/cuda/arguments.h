// What the host passes to kernels: plain structures, the same text for the C++ compiler, NVRTC and the
// emulated device. Pointers are device addresses. A row matrix is a View; step tables (StepTable) lie at
// fixed addresses, so that a captured graph can be replayed after only their contents have changed.
#pragma once

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define FT_ON_BOTH static constexpr __device__ __forceinline__
#else
#define FT_ON_BOTH constexpr
#endif

namespace ft::cuda {

constexpr int kCacheRows = 32;    // positions of a key/value block (ft::kBlockRows)
constexpr int kRingRows = 32;     // ft::kRing
constexpr int kTapeRows = 16;     // ft::kMaxTapeRows
constexpr int kSplitK = 8;        // of K: chains inside, slices added in order
constexpr int kTileOutputs = 16;  // outputs of a packed tile
constexpr int kScaleFloats = 16;  // scale and sum of each of eight rows, for one group
constexpr int kQueryTile = 16;    // queries of a key/value head that the matrix instruction takes together
constexpr int kPartialExtra = 2;  // a partial result of attention: head_dim sums, maximum, mass
constexpr int kMaxTaps = 8;
constexpr int kMaxHeadDim = 512;

/// Groups of a slice of K in a piece of a tile's records (kernels/layout.cuh): as large as divides well. The
/// last piece may have fewer.
FT_ON_BOTH int piece_groups(int of_slice) {
  if (of_slice % 5 == 0) return 5;
  if (of_slice % 6 == 0) return 6;
  if (of_slice % 4 == 0) return 4;
  return of_slice > 6 ? 6 : of_slice > 4 ? 5 : of_slice > 2 ? 4 : 2;
}

/// The first group of a slice of K: slices differ by at most one group.
FT_ON_BOTH int slice_begin(int groups, int slice) { return groups * slice / kSplitK; }
/// Groups of the largest slice.
FT_ON_BOTH int slice_groups(int groups) { return (groups + kSplitK - 1) / kSplitK; }
/// The record in its tile of the first group of a piece; `start`: that group's number in its slice. In the
/// last piece slices may have one group less than others.
FT_ON_BOTH int piece_record(int groups, int slice, int start, int piece) {
  const bool last = start + piece >= slice_groups(groups);
  return start * kSplitK + (last ? slice_begin(groups, slice) - slice * start : slice * piece);
}

/// Rows at data + row * stride; stride counts floats.
struct View {
  float* data = nullptr;
  int stride = 0;
  int width = 0;
};

/// A Segment (program/backend.h) as kernels read it.
struct SegmentPlace {
  int first_row, rows, confirmed, position;
  int slot, replay, tape;
  int first_block;  // of its blocks in StepTable::blocks
};

/// A SampleRow (program/sample_row.h) that is evaluated where the logits are; AdjustPlace has the rest of it.
struct SamplePlace {
  unsigned long long seed;
  long long position;
  float temperature, top_p, min_p;
  int top_k, stream, store;
};

/// What is seen of a row's tokens: ft::TokenCount and ft::LogitBias.
struct SeenToken {
  int token, output;
};
struct BiasedToken {
  int token;
  float bias;
};

/// Penalties, bias and mask of one row; counts of 0: none.
struct AdjustPlace {
  float repetition, presence, frequency;
  int penalised;             // whether the three apply
  int first_seen, seen;      // of AdjustArgs::seen, ascending by token
  int first_draft, drafts;   // of the round's tokens; first -1: the step's own, the row's the last of them
  int first_biased, biased;  // of AdjustArgs::biased, ascending by token
  int first_word, words;     // of AdjustArgs::words: bit v of word v / 32 set: v is allowed
};

struct StepTable {
  const int* tokens;            // [rows]; t < 0 means round[-1 - t]
  const int* positions;         // [rows]
  const int* hidden_places;     // [rows] of the store that Input reads
  const int* capture_places;    // [rows] of the store that Capture writes; < 0: nowhere
  const int* embedding_places;  // [rows] of the store that Embed may take rows of; < 0: the table
  const int* coordinates;       // [rows][3] of Attention::frequency_axes
  const int* logit_rows;        // [logit rows]
  const SegmentPlace* segments;
  const SamplePlace* samples;  // [logit rows]
  const int* blocks;
  int* round;  // the round's token buffer
};

/// The step's table out of the pinned memory of the host, where it takes the turns of a ring.
struct FetchArgs {
  const unsigned char* ring;  // [turns][turn_bytes]
  unsigned char* table;
  int* turn;  // the next one; the kernel counts it
  int turns, turn_bytes, bytes;
};

struct GatherArgs {
  StepTable step;
  const float* store;  // rows of store_width
  int store_width;
  View out;
};

struct CaptureArgs {
  StepTable step;
  View in;
  float* store;
};

constexpr int kSampleColumns = 2048;  // of a row of logits that a block reads
constexpr int kSampleBins = 4096;     // of a histogram of logits by their upper 12 bits
constexpr int kMaxTopK = 256;         // that the device samples with
constexpr int kMaxCandidates = 2048;

/// Changes the logits in place, as ft::adjust does on the host.
struct AdjustArgs {
  StepTable step;
  View logits;
  const int* ids;           // token of each column, ascending; null: the column
  const AdjustPlace* rows;  // [logit rows]
  const SeenToken* seen;
  const BiasedToken* biased;
  const unsigned int* words;
};

struct SampleArgs {
  StepTable step;
  View logits;
  const int* ids;               // token of each column; null: the column
  const AdjustPlace* adjusted;  // [logit rows]; null: logits are as they were computed
  const unsigned int* words;    // of their masks
  int parts;                    // of a row, kSampleColumns each
  float* tops;                  // [logit rows][parts] highest logit
  int* top_places;              // [logit rows][parts]
  double* scores;               // [logit rows][parts] best of logit + noise
  int* score_tokens;            // [logit rows][parts]
  int* bins;                    // [logit rows][kSampleBins]
  int* counts;                  // [logit rows] candidates
  float* values;                // [logit rows][kMaxCandidates]
  int* tokens;                  // [logit rows][kMaxCandidates]
  int* sampled;                 // [logit rows], memory of the host
  int* mirror;                  // of step.round, memory of the host
};

/// 8-bit codes of rows, [rows][k], with scale and sum of each group: [rows / 8][groups][4](scale of rows 2t
/// and 2t + 1, scale * sum of codes of both). Kernels of halves write those, in the order of
/// kernels/quantise.cuh, and 0 in place of scales.
struct QuantisedRowsOut {
  signed char* codes;  // null: no codes
  float* scales;
  int k, group;  // of halves that are smaller where a record has codes in high bits: negative
};

struct QuantiseArgs {
  View in;
  const int* rows;  // which rows of `in`; null: in order
  QuantisedRowsOut out;
};

struct NormArgs {
  View in, out;
  const float* weight;  // null: ones
  float eps;
  QuantisedRowsOut codes;
};

/// A norm, what is added to it, a factor, and the norm of that (NormChain of row_plan.h).
struct NormChainArgs {
  View in, residual, sum;               // residual.data null: nothing is added
  const float *weight, *second_weight;  // null: ones
  float eps, second_eps, factor;
  int second;  // whether there is a second norm:
  View out;    // its rows,
  QuantisedRowsOut codes;
};
constexpr int kNormKept = 2;  // of 4,096 numbers of a row, in registers
constexpr int kNormChainWidth = kNormKept * 4096;

struct LayerNormArgs {
  View in, out;
  const float *weight, *bias;
  float eps;
};

struct GatedNormArgs {
  View in, gate, out;
  const float* weight;
  int head;
  float eps;
  int rows;
  QuantisedRowsOut codes;  // gated_norm_codes
};

struct PairArgs {          // swiglu, geglu, add, sigmoid_gate (b: one number a row), bias (b.stride: 0)
  View a, b, out;          // out.data null: only codes are written
  QuantisedRowsOut codes;  // swiglu_codes
};

struct ConcatArgs {
  View a, b, out;
};

struct ScaleArgs {  // out = in * factor; a slice of a row is that with factor 1
  View in, out;
  float factor;
};

struct GeluArgs {
  View in, out;
  int exact;
};

struct SoftCapArgs {
  View logits;
  float cap;
};

/// How records hold scales and biases: as pairs of bfloat16, of floats, of float16.
enum ScaleType { kBf16Scales, kFloatScales, kHalfScales };

/// Codes of a raw affine matrix to tiles of packed records (kernels/layout.cuh).
struct PackArgs {
  const unsigned char* raw;  // rows [rows], row_bytes each
  const unsigned char* scales;
  const unsigned char* biases;
  unsigned char* records;
  long long row_bytes;
  int rows, cols;         // of the piece; rows beyond are packed as zeros
  int first_tile, tiles;  // where the piece goes
  int raw_bits, bits, group;
  int scale_bytes;  // of a raw scale: 2 or 4
  int scale_half;   // 2-byte scales are float16, not bfloat16
  int scale_type;   // ScaleType of the records
};

struct EmbedArgs {
  StepTable step;
  const unsigned char* records;  // packed affine rows, or null
  const void* plain;             // bfloat16 or float rows
  int plain_wide;                // floats
  int plain_stride;
  int groups, bits, group, scale_type;
  int small_floats;    // the records have e2m1 codes
  const float* given;  // rows of the step's own, as wide as `out`; null: none
  View out;
};

struct LinearArgs {
  const unsigned char* records;
  const signed char* codes;
  const float* scales;
  View out;       // at the matrix's first column
  View residual;  // added to the product; data null: nothing is
  int tiles, groups, rows, outputs;
};

/// The step before a streaming linear that its blocks do themselves, with the arithmetic of the step's kernel
/// (norm.cu), so that the codes of the rows need no launch.
enum FusedProducerKind {
  kFromCodes,  // they are there
  kFromRows,   // quantise
  kFromNorm    // rms_norm
};
struct FusedProducer {
  int kind;
  View in;
  const float* weight;
  float eps;
};
constexpr int kProducerRows = 2;  // that a block makes the codes of

struct StreamArgs {
  LinearArgs linear;
  FusedProducer producer;
  int stages, early;  // of the ring; those filled before x is here
};

struct SplitKGemmArgs {
  LinearArgs linear;
  int stages, early;  // of the ring of records; those filled before x is here
};

struct GemmArgs {
  LinearArgs linear;
  int stages;  // of a group in shared memory, 2 to 4
};

/// Codes and scales of rows as the asynchronous matrix instruction reads them: kernels/gemm.cu.
struct SwizzleArgs {
  const signed char* codes;
  const float* scales;
  unsigned char* out;
  int rows, groups, tile_rows;  // rows of a block
};

struct AsyncGemmArgs {
  LinearArgs linear;
  const unsigned char* rows;  // swizzled
};

/// A second matrix for the same rows, of the same width and kind.
struct PlainMatrix {
  const void* weights;
  View out;
  int outputs;  // 0: there is none
};
struct PlainLinearArgs {
  const void* weights;  // [outputs][padded k], bfloat16 or float
  int wide;
  int k, padded;
  View in;
  const int* row_list;  // which rows of `in`; null: in order
  View out, residual;
  const float* bias;  // [outputs]; null: none
  int rows, outputs;
  int block_outputs;  // of a block, a warp each
  PlainMatrix also;   // without a bias
};

constexpr int kMaxChosen = 32;            // experts of a row
constexpr float kMinRouterMass = 1e-20f;  // kMinRouterSum
constexpr int kExpertTileRows = 8;        // rows of one expert that a block multiplies together

struct RouteArgs {
  View scores, out;    // out: [chosen] indices, [chosen] weights
  const float* scale;  // [scores.width]; null: ones
  int chosen, renormalised;
  const float* bias;  // [scores.width] of the choice by sigmoid; null: zeros
  float factor;
  int by_sigmoid;
};

/// The pairs (row, place in its route) in tiles of one expert each. Pair: row * chosen + place.
struct ExpertTiles {
  int* experts;  // [count] whose tile it is; -1: none
  int* pairs;    // [count][kExpertTileRows]; -1 where the tile has no more pairs, never the first
  int count;
};

struct ExpertTilesArgs {
  View routes;
  ExpertTiles to;
  int* sizes;   // [experts] scratch: its pairs,
  int* firsts;  // its first tile
  int rows, chosen, experts;
};

/// out[pair] = the expert's matrix * in[pair / pairs_a_row].
struct ExpertArgs {
  const unsigned char* records;  // packed, or plain weights [outputs][padded]
  const signed char* codes;
  const float* scales;
  View in, out;  // in: of plain weights; out: a row for each pair
  ExpertTiles expert_tiles;
  int pairs_a_row;      // 1: `in` has a row for each pair
  int tiles, groups;    // of one expert
  int wide, k, padded;  // of plain weights
};

constexpr int kMixtureRows = 8;       // of a step that kernels/mixture.cu takes,
constexpr int kMixturePairs = 64;     // its pairs of a row and an expert,
constexpr int kMixtureExperts = 512;  // and the experts that there are
constexpr int kMixtureSets = 2;       // of eight warps of a block of mixture_down
constexpr int kMixtureHeldStep = 8;   // it holds the sums of a multiple of this many experts
constexpr int kMixtureDownThreads = 256 * kMixtureSets;

/// The distinct experts of all rows of a step, ascending, and the place of each pair among the codes of inner
/// rows, in the experts' order. The expert that every row passes comes last.
struct MixtureRoutes {
  int count, slots;  // without and with that expert
  int experts[kMixturePairs];
  int rows[kMixturePairs + 1], first[kMixturePairs + 1];  // rows: bit r is set: row r goes there
  int lines[kMixturePairs + kMixtureRows];                // of a slot: expert * kMixtureRows + row
  float weights[kMixturePairs][kMixtureRows];
};

/// A router and its experts, for few rows; with the expert that every row passes, and what is added to the
/// sum.
struct MixtureArgs {
  RouteArgs route;
  MixtureRoutes* routes;
  const signed char* codes;  // of the rows
  const float* scales;
  const unsigned char *inner, *down;                // records: gate and up of each expert; down of each
  const unsigned char *shared_inner, *shared_down;  // null: no such expert
  int tiles, shared_tiles;                          // of gate
  int groups, down_groups, shared_groups;           // of K; shared_groups: of its down matrix
  int rows, out_tiles, gelu;
  int inner_blocks, held;  // blocks of mixture_inner; experts whose sums a block of mixture_down holds
  View inner_rows;         // [kMixturePairs + 1][kMixtureRows]
  View shared_gate, residual, out;  // data null: there is none
};

struct ExpertSumArgs {
  View routes, in, out;  // in: a row for each pair
  const float* bias;     // [experts][out.width]; null: none
  int chosen;
  View residual;  // added to the sum; data null: nothing is
};

enum ExpertActivation { kExpertSilu, kExpertGelu, kExpertClamped };
/// The inner rows of pairs, in place of their gates (Activation of program/instructions.h).
struct ExpertActivationArgs {
  View routes, gate, up;
  const float *gate_bias, *up_bias;  // [experts][gate.width]; null: none
  int chosen, activation;            // ExpertActivation
  float alpha, limit;                // of a clamped one
  QuantisedRowsOut codes;            // activate_experts_codes: written in place of the rows
};

struct ArrangeArgs {  // columns of logits in order of ids
  View from, to;
  const int* order;  // [to.width] column of `from`
};

struct RotaryArgs {
  StepTable step;
  const float* frequencies;
  const unsigned char* axes;  // [half] of the step's coordinates; null: the position turns all
  int half, rows;
  float scale;
  float* cosines;  // [rows][half]
  float* sines;
};

struct AttendArgs {
  StepTable step;
  View q, k, v, out;
  const float* q_norm;  // null: no norm
  const float* k_norm;
  const float* sinks;  // [heads]; null: none
  const float* gains;  // [gain_count] of queries, each for gain_span positions; null: none
  const float* cosines;
  const float* sines;
  float* queries;        // [rows][heads][head_dim], normalised, rotated, scaled
  float* partials;       // [rows][heads][splits][head_dim + kPartialExtra]
  unsigned char* cache;  // of layer 0 of block 0
  long long block_bytes, layer_offset, head_bytes;
  int heads, kv_heads, head_dim, half, gated, kv_bits;
  int sliding_window;          // positions that a row sees, its own among them; 0: all
  int causal, shared, v_norm;  // of Attention (program/instructions.h)
  int rows, segments, splits;  // splits 0: a block walks all of them and writes the result itself
  int stages;                  // units of the cache in shared memory, 1 to 3
  int gain_span, gain_count;
  float eps, scale;
};

struct ConvArgs {
  StepTable step;
  View in, out;
  const float* kernel;  // [width][taps]
  unsigned char* slots;
  long long slot_bytes, offset;
  int kernel_width;
};

struct DeltaArgs {
  StepTable step;
  View in, a, b, out;
  const float* decay;  // exp(a_log)
  const float* dt_bias;
  unsigned char* slots;
  long long slot_bytes, state_offset, tape_offset;
  int key_heads, value_heads, key_dim, value_dim;
  int entry;  // floats of a tape entry: k [key_heads][key_dim], d [value_heads][value_dim], g [value_heads]
};

constexpr int kDeltaColumns = 64;  // of a value head, of a block

/// Convolution, delta rule and gated norm of few rows in one launch: heads of 128 keys and 128 values.
struct DeltaStepArgs {
  ConvArgs conv;
  DeltaArgs delta;
  GatedNormArgs norm;
};
constexpr int kDeltaStepRows = 16;  // of a segment

struct FaultArgs {  // kernels/faults.cu
  int* number;
};

}  // namespace ft::cuda
