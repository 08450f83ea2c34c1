// The constraints of the losslessness matrix: a grammar for every answer, and a grammar after a short
// reasoning budget. The tokenizer must outlive them.
#pragma once

#include <memory>

#include "text/grammar.h"
#include "text/thinking_marks.h"
#include "verify/matrix.h"

namespace ft {

class MatrixConstraints {
 public:
  MatrixConstraints(const Tokenizer& tokenizer, const std::vector<int>& eos, const ChatFormat& format);
  /// For kGrammar and kBudget; null for every other kind.
  Result<std::unique_ptr<Constraint>> make(SamplingKind kind);

 private:
  const Tokenizer& tokenizer_;
  GrammarCompiler compiler_;
  ThinkingMarks marks_;
  std::shared_ptr<const Grammar> grammar_;  // compiled on first use
};

}  // namespace ft
