// `foretoken bench --drafters`: the same prompts with every drafter of the model, with the choice among them
// and without drafts, interleaved so that a slow minute affects all of them.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "cli/bench/bench_measure.h"

namespace ft::cli {

/// The figures of one prompt, answer by answer.
struct PromptSpeeds {
  std::string name;
  std::vector<double> tokens_per_second;
};

/// The results of one drafter over all prompts.
struct DrafterFigures {
  std::string name;
  Speed speed;
  SpeculationReport speculation;
  double first_token_ms = 0;  // mean over answers, from the request on
  int answers = 0;
  bool identical = true;  // the tokens are those without a drafter
  std::vector<PromptSpeeds> prompts;
};

/// A token of an answer as text.
struct AnswerPiece {
  std::string text, drafted_by;  // empty: it was not drafted
};

struct DrafterTable {
  std::string model, backend;
  std::vector<DrafterFigures> drafters;  // none first
  std::vector<AnswerPiece> answer;       // the answer of auto that most drafters had a part in
};

/// Names of the engine's drafters, "none" first and "auto" last.
std::vector<DrafterKind> benched_drafters(const Engine& engine);

/// Adds one answer of every drafter to the table; `turn` moves the order on.
Status add_answers(Engine& engine, const LoadedModel& loaded, const BenchCase& bench_case,
                   std::span<const DrafterKind> drafters, std::size_t turn, const std::atomic<bool>& stopped,
                   DrafterTable& table);

std::string drafter_table_text(const DrafterTable& table);
std::string drafter_table_json(const DrafterTable& table);

}  // namespace ft::cli
