// Compares a new drafter with those that the model had, on held-out prompts, by the machinery of `bench
// --drafters`; its card; and the report of `tune`.
#pragma once

#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands/tune_work.h"

namespace ft::cli {

struct ComparisonChoice {
  ModelOptions model;
  std::string directory;  // of the model
  TuneKind kind;
  std::string folder;   // of the new drafter
  std::string place;    // where it goes if it is not kept
  std::string prompts;  // as for TunePrompts
  TuneLengths lengths;
};

struct Comparison {
  DrafterTable table;
  /// Tokens a round. "mtp before" is the drafter of the same kind that the model had.
  std::vector<std::pair<std::string, double>> at_depth3;
  bool identical = true, wins = false;
  std::string why;  // a sentence
};

Result<Comparison> compare_new_drafter(const ComparisonChoice& choice, const std::atomic<bool>& stopped,
                                       Terminal& terminal);

/// README.md of the drafter's folder: data, figures, licence of the base model.
std::string drafter_card(const TuneReport& report, const std::string& model_directory);
std::string tune_report_json(const TuneReport& report);
std::string tune_report_text(const TuneReport& report);

}  // namespace ft::cli
