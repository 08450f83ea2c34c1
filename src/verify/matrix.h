// The losslessness matrix: the same prompts must give the tokens of plain decoding under every drafter,
// depth, batch, prompt chunk, cache path, thread count and kind of sampling. `verify` and tests run it. A
// cell is one choice of all axes and is compared for every prompt. The calling thread drives the decoder. A
// difference is not an error but part of the report.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/options.h"
#include "speculation/decoder.h"

namespace ft {

struct MatrixPrompt {
  std::string name;
  std::vector<std::int32_t> ids;
  std::vector<PromptImage> images = {};  // in order
};

enum class SamplingKind { kGreedy, kSampled, kPenalties, kMaskAndBias, kStop, kGrammar, kBudget };
std::string_view sampling_kind_name(SamplingKind kind);

/// How a sequence gets its past: computed, forked from another slot, or restored from a snapshot of the
/// prefix cache (its last rows are recomputed).
enum class Way { kCold, kForked, kWarm };

struct Cell {
  SamplingKind sampling = SamplingKind::kGreedy;
  DrafterKind drafter = DrafterKind::kNone;
  int depth = -1;   // -1: auto
  int batch = 1;    // 1, or 3 sequences of different lengths and start rounds
  int chunk = 256;  // prompt rows per step
  Way way = Way::kCold;
  int threads = 1;
  std::string text() const;
};

struct CellResult {
  Cell cell;
  int prompts = 0, tokens = 0;               // tokens: max per answer
  std::int64_t compared = 0, differing = 0;  // tokens
  std::int64_t drafted = 0, accepted = 0;
  std::string first_difference;  // empty if none
};

struct MatrixReport {
  std::vector<CellResult> cells;
  std::int64_t compared = 0, differing = 0;
  bool complete = true;           // false if interrupted
  int prompts = 0, pictured = 0;  // number of prompts, and of prompts with pictures
  std::string images_problem;     // why prompts with pictures were left out; empty: all ran
  void add(MatrixReport other);
  bool identical() const { return differing == 0 && compared > 0; }
};

/// kFull: the whole product. kQuick: each axis away from the middle once. kBrief: cells that threads may
/// change. kLong: few cells, greedy and sampled, with many prompts and long answers.
enum class MatrixSize { kFull, kQuick, kBrief, kLong };
/// The cells of one thread count; kGrammar and kBudget only if `constrained`. `more`: drafters besides the
/// MTP head, lookup and auto.
std::vector<Cell> matrix_cells(MatrixSize size, int threads, bool has_head, bool constrained,
                               std::span<const DrafterKind> more = {});

struct MatrixOptions {
  BackendOptions backend;  // each cell sets threads
  int tokens = 24;         // max per answer
  std::vector<int> threads = {1, 2};
  MatrixSize size = MatrixSize::kQuick;  // kQuick runs kBrief for all thread counts but the first
  int part = 1, parts = 1;               // the cells part, part + parts, part + 2 parts, ...
  std::function<bool(std::size_t done, std::size_t cells)> progress;  // false stops
  /// Tests wrap the backend of each cell.
  std::function<std::unique_ptr<Backend>(std::unique_ptr<Backend>)> around = {};
  /// Makes the constraint of a slot for kGrammar and kBudget (verify/matrix_constraints.h); empty: no
  /// such cells.
  std::function<Result<std::unique_ptr<Constraint>>(SamplingKind)> constrain;
};

/// Runs the matrix on one or more prompts, each shorter than the context.
Result<MatrixReport> run_matrix(const Model& model, const std::vector<MatrixPrompt>& prompts,
                                const MatrixOptions& options);

}  // namespace ft
