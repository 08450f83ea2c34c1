// The constraints of the losslessness matrix: one grammar for every answer, and one behind a short budget of
// reasoning. Owner: the caller; the tokenizer outlives it. Thread: one. Cost: one compilation, then that of a
// matcher each. Errors: those of the grammar.
#pragma once

#include <memory>

#include "cli/matrix.h"
#include "text/grammar.h"
#include "text/thinking_marks.h"

namespace ft::cli {

class MatrixConstraints {
 public:
  MatrixConstraints(const Tokenizer& tokenizer, const std::vector<int>& eos);
  /// For kGrammar and kBudget; null for every other kind.
  Result<std::unique_ptr<Constraint>> make(SamplingKind kind);

 private:
  const Tokenizer& tokenizer_;
  GrammarCompiler compiler_;
  ThinkingMarks marks_;
  std::shared_ptr<const Grammar> grammar_;  // once it is needed
};

}  // namespace ft::cli
