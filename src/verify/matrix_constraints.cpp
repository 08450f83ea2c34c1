#include "verify/matrix_constraints.h"

#include "sched/answer_constraint.h"

namespace ft {
namespace {

/// Long names are jump-forward tokens; numbers and strings are free.
constexpr std::string_view kSchema = R"({"type": "object", "properties": {
    "temperature_in_celsius": {"type": "number"}, "description": {"type": "string", "maxLength": 40},
    "words": {"type": "array", "items": {"type": "string"}}},
    "required": ["temperature_in_celsius", "description", "words"], "additionalProperties": false})";
constexpr int kBudget = 6;  // tokens of reasoning

}  // namespace

MatrixConstraints::MatrixConstraints(const Tokenizer& tokenizer, const std::vector<int>& eos,
                                     const ChatFormat& format)
    : tokenizer_(tokenizer), compiler_(tokenizer, {eos.begin(), eos.end()}), marks_(tokenizer, eos, format) {}

Result<std::unique_ptr<Constraint>> MatrixConstraints::make(SamplingKind kind) {
  if (kind != SamplingKind::kGrammar && kind != SamplingKind::kBudget) return std::unique_ptr<Constraint>();
  if (!grammar_) {
    FT_ASSIGN(grammar_, compiler_.json_schema(kSchema));
  }
  RequestFields fields;
  fields.grammar = grammar_;
  fields.parse = kind == SamplingKind::kBudget;
  if (kind == SamplingKind::kBudget) {
    fields.prompt_text = marks_.format().reasoning.open, fields.thinking_budget = kBudget;
  }
  return AnswerConstraint::make(fields, tokenizer_, marks_);
}

}  // namespace ft
