// The losslessness matrix: the same prompts under every drafter, depth, batch, prompt chunk, way into the
// cache, number of threads and kind of sampling must give the tokens of plain decoding alone. What `verify`
// runs, and tests.
// A cell is one choice of all axes; it is compared for every prompt.
// Owner: the caller. Thread: the calling thread drives the decoder. Cost: one decoding of `tokens` a cell and
// prompt. Errors: those of backend and decoder; a difference is no error but part of the report.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/registry.h"
#include "spec/decoder.h"

namespace ft::cli {

struct MatrixPrompt {
  std::string name;
  std::vector<std::int32_t> ids;
};

enum class SamplingKind { kGreedy, kSampled, kPenalties, kMaskAndBias, kStop, kGrammar, kBudget };
std::string_view sampling_kind_name(SamplingKind kind);

/// How a sequence gets its past: computed, by a fork of another one's slot, or from a snapshot as the prefix
/// cache keeps them (its last rows computed again).
enum class Way { kCold, kForked, kWarm };

struct Cell {
  SamplingKind sampling = SamplingKind::kGreedy;
  DrafterKind drafter = DrafterKind::kNone;
  int depth = -1;   // -1: auto
  int batch = 1;    // 1, or 3 sequences of different lengths that start and end in different rounds
  int chunk = 256;  // prompt rows of one step
  Way way = Way::kCold;
  int threads = 1;
  std::string text() const;
};

struct CellResult {
  Cell cell;
  int prompts = 0, tokens = 0;               // of each prompt's answer, at most
  std::int64_t compared = 0, differing = 0;  // tokens
  std::int64_t drafted = 0, accepted = 0;
  std::string first_difference;  // empty if there is none
};

struct MatrixReport {
  std::vector<CellResult> cells;
  std::int64_t compared = 0, differing = 0;
  bool complete = true;  // false if it was interrupted
  void add(MatrixReport other);
  bool identical() const { return differing == 0 && compared > 0; }
};

/// kFull: the whole product. kQuick: each axis away from the middle once. kBrief: what threads may change.
/// kLong: few cells, greedy and sampled, for many prompts and long answers.
enum class MatrixSize { kFull, kQuick, kBrief, kLong };
/// The cells of one number of threads; kGrammar and kBudget only if `constrained`.
std::vector<Cell> matrix_cells(MatrixSize size, int threads, bool has_head, bool constrained);

struct MatrixOptions {
  BackendOptions backend;  // threads is set by each cell
  int tokens = 24;         // of each answer, at most
  std::vector<int> threads = {1, 2};
  MatrixSize size = MatrixSize::kQuick;  // kQuick runs kBrief for every number of threads but the first
  std::function<bool(std::size_t done, std::size_t cells)> progress;  // false stops
  /// A slot's constraint of kGrammar and kBudget (cli/matrix_constraints.h); empty: no such cells.
  std::function<Result<std::unique_ptr<Constraint>>(SamplingKind)> constrain;
};

/// At least one prompt; prompts must be shorter than their decoding's context (built to fit).
Result<MatrixReport> run_matrix(const Model& model, const std::vector<MatrixPrompt>& prompts,
                                const MatrixOptions& options);

}  // namespace ft::cli
