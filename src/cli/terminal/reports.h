// The reports of the subcommands, as plain data. Tables and JSON (cli/terminal/report_json.h) use the same
// values.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands/answering.h"

namespace ft::cli {

struct RunReport {
  std::string model, backend;
  GatheredAnswer answer;
  double load_ms = 0;
  std::string costs;  // source of the calibration
  bool wants_logprobs = false;
  const Tokenizer* tokenizer = nullptr;  // for the text of logprobs
};

/// One side of a pair, or all of them.
struct Speed {
  std::int64_t tokens = 0;
  double decode_ms = 0;
  double tokens_per_second() const {
    return decode_ms > 0 ? static_cast<double>(tokens) * 1e3 / decode_ms : 0;
  }
  void add(std::int64_t more_tokens, double more_ms) { tokens += more_tokens, decode_ms += more_ms; }
};

struct BenchPrompt {
  std::string name, sampling;
  int prompt_tokens = 0;
  std::vector<double> ratios;  // of each pair: speculative tokens/s over plain
  Speed plain, speculative;
  SpeculationReport speculation;
  std::string drafter, reason;  // reason: why nothing was drafted
  bool identical = true;
  std::string text, speculative_text;
};

struct BenchReport {
  std::string model, backend;
  bool expects_identical = true;  // false with rejection sampling
  std::vector<BenchPrompt> prompts;
};

struct BenchSummary {
  Speed plain, speculative;
  double ratio = 0, low = 0, high = 0;  // low and high: over all pairs
  SpeculationReport speculation;
  bool identical = true;
};

BenchSummary summarise(const BenchReport& report);

struct ScoredPosition {
  std::int32_t id = 0, argmax = 0;
  float argmax_logit = 0;
  double logsumexp = 0;
  std::vector<std::pair<std::int32_t, float>> top;
  double next_logprob = 0;  // of the text's next token; 0 at the last position
};

struct ScoreReport {
  std::vector<ScoredPosition> positions;
  double log_likelihood = 0;  // of all tokens but the first
  double perplexity() const;
};

/// One quantised matrix against its source.
struct TensorFigure {
  std::string name, format;
  double cosine = 1, relative = 0;  // relative: error over the root mean square
};

/// A model before and after a conversion, on a text.
struct QualityReport {
  std::int64_t tokens = 0;
  double perplexity_before = 0, perplexity_after = 0, divergence = 0;
  SpeculationReport head_before, head_after;  // of the MTP head; no rounds: it has none
};

/// The result or plan of `quantize` or `convert`.
struct ConversionReport {
  std::string directory, recipe, source_format;
  std::int64_t source_bytes = 0, bytes = 0;
  double bits_per_weight = 0, seconds = 0;
  bool written = false;
  int files_kept = 0;                 // of an earlier run that was stopped
  std::vector<std::string> notes;     // what could not be kept exactly
  std::vector<TensorFigure> tensors;  // with --verify
  std::optional<QualityReport> quality;
};

}  // namespace ft::cli
