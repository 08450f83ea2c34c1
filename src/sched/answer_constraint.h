// The constraint of one answer (sampling/constraint.h): free reasoning up to its budget, then content that
// follows a grammar.
//   budget   After this many tokens of reasoning, the closing tag is the only token allowed; then the answer
//            continues. Reasoning is what ThinkingSplitter reports as such.
//   grammar  It begins after the closing tag and its gap if the answer begins with reasoning, or if its first
//            token opens reasoning and the prompt has neither opened nor closed it;
//            otherwise with the first token. An answer with channels (text/chat_format.h) begins with
//            reasoning, whose opening tag is then the only text allowed, unless the prompt has opened or
//            closed it. Reasoning before a grammar cannot end the answer. At the end of
//            the grammar only end tokens are allowed; an answer that max_tokens cuts stays cut.
//   on sight The grammar of optional calls begins where a call begins (text/call_watch.h); reasoning and text
//            before it have no mask, except where a token would complete the beginning and continue.
//   free     Rounds take no notice of the constraint while no row has a mask: reasoning within its budget and
//            text before a call cost no time of a device.
// Owner: the slot. Cost: a grammar's mask once per row, in buffers made with the constraint; a row of
// reasoning compares a few bytes. Errors: make() fails for a grammar that cannot start. A later step beyond
// llguidance's limits ends the request, unless it was in a draft's row.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "drafters/drafter.h"
#include "sampling/constraint.h"
#include "sched/request.h"
#include "text/grammar.h"
#include "text/thinking.h"
#include "text/thinking_marks.h"

namespace ft {

class AnswerConstraint final : public Constraint {
 public:
  /// Null if the request allows everything. The tokenizer and the marks must outlive the constraint.
  static Result<std::unique_ptr<Constraint>> make(const RequestFields& fields, const Tokenizer& tokenizer,
                                                  const ThinkingMarks& marks);

  std::optional<std::span<const std::uint32_t>> mask(std::span<const std::int32_t> drafts) override;
  bool allows(std::span<const std::int32_t> drafts) override;
  int jump_forward(std::span<std::int32_t> out) override;
  void commit(std::span<const std::int32_t> tokens) override;
  std::size_t free_rows(std::span<const std::int32_t> tokens) const override;
  Error problem() const override { return problem_; }

 private:
  enum class Phase : std::uint8_t { kForcedOpening, kOpening, kReasoning, kGap, kContent, kFree, kEnded };

  /// State of the answer after a number of tokens.
  struct State {
    Phase phase = Phase::kFree;
    ThinkingSplitter splitter{kPlainFormat, {}};  // without a grammar: finds the reasoning
    std::size_t matched = 0;                      // with a grammar: matched bytes of the closing tag
    int reasoned = 0;                             // tokens of reasoning
    std::size_t written = 0;                      // jump-forward tokens of a tag, or of its gap
    std::size_t consumed = 0;                     // tokens, by the grammar
    CallWatch::Matched watched = {};              // of a grammar on sight, before it begins
  };
  struct Row {
    State state;
    std::int32_t draft = -1;  // the token after this row
    bool masked = false;
    std::span<const std::uint32_t> mask;
    std::vector<std::uint32_t> words;  // [vocabulary / 32], if the mask is made for this row
  };

  AnswerConstraint(const RequestFields& fields, const Tokenizer& tokenizer, const ThinkingMarks& marks);
  bool over_budget(const State& state) const;
  std::int32_t only_token(const State& state) const;
  State after(const State& state, std::int32_t token) const;
  bool compute(std::size_t row);
  bool go_to(std::size_t consumed);
  bool restart();
  bool is_free(const State& state) const;
  bool watches(const State& state) const { return on_sight_ && state.consumed == 0; }
  void compute_watch(Row& row);
  std::vector<std::int32_t> begun(const State& state, std::int32_t token) const;
  std::optional<std::vector<std::int32_t>> reached(std::size_t pattern, std::size_t rest) const;
  void take(const State& before, const State& next, std::int32_t token);

  const Tokenizer& tokenizer_;
  const ThinkingMarks& marks_;
  std::shared_ptr<const Grammar> grammar_;
  const bool on_sight_;
  const int budget_;
  std::optional<GrammarMatcher> matcher_;
  std::size_t matcher_at_ = 0;                 // tokens it has consumed
  std::vector<std::int32_t> content_;          // tokens for the grammar: emitted ones, then drafts
  std::array<Row, kMaxDraftTokens + 2> rows_;  // [0] after the emitted tokens, [i] after i drafts
  std::size_t known_ = 0;                      // number of drafts that rows_ cover
  std::array<bool, CallWatch::kMaxPatterns> begins_ = {};  // patterns that begin a call of the grammar
  Error problem_;
};

}  // namespace ft
