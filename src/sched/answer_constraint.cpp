#include "sched/answer_constraint.h"

#include <algorithm>

#include "sampling/filters.h"

namespace ft {

Result<std::unique_ptr<Constraint>> AnswerConstraint::make(const RequestFields& fields,
                                                           const Tokenizer& tokenizer,
                                                           const ThinkingMarks& marks) {
  const bool budget = fields.parse && fields.thinking_budget >= 0;
  if (fields.grammar == nullptr && !budget) return std::unique_ptr<Constraint>();
  std::unique_ptr<AnswerConstraint> constraint(new AnswerConstraint(fields, tokenizer, marks));
  if (!constraint->restart()) return constraint->problem_;
  return std::unique_ptr<Constraint>(std::move(constraint));
}

AnswerConstraint::AnswerConstraint(const RequestFields& fields, const Tokenizer& tokenizer,
                                   const ThinkingMarks& marks)
    : tokenizer_(tokenizer),
      marks_(marks),
      grammar_(fields.grammar),
      on_sight_(grammar_ != nullptr && grammar_->on_sight() && fields.parse),
      budget_(fields.parse ? fields.thinking_budget : -1) {
  const ReasoningTags& tags = marks.format().reasoning;
  ThinkingOptions thinking;
  thinking.starts_in_reasoning = fields.parse && prompt_opens_thinking(fields.prompt_text, tags);
  thinking.tool_call_ends_reasoning = !fields.tools.empty();
  const std::size_t words = (static_cast<std::size_t>(tokenizer.vocab_size()) + 31) / 32;
  for (Row& row : rows_) row.words.assign(words, 0);
  State& start = rows_[0].state;
  start.splitter = ThinkingSplitter(marks.format(), thinking);
  const bool closed = !fields.parse || prompt_closes_thinking(fields.prompt_text, tags) || !marks.open();
  const bool eager = grammar_ && !on_sight_;
  for (std::size_t i = 0; on_sight_ && i < marks.calls().size(); ++i) begins_[i] = reached(i, 0).has_value();
  start.phase = thinking.starts_in_reasoning                  ? Phase::kReasoning
                : eager && !closed && marks.format().channels ? Phase::kForcedOpening
                : !eager || !closed                           ? Phase::kOpening
                                                              : Phase::kContent;
}

bool AnswerConstraint::over_budget(const State& state) const {
  return state.phase == Phase::kReasoning && budget_ >= 0 && state.reasoned >= budget_ &&
         state.written < marks_.close().size();
}

/// The only token allowed next for a reason other than the grammar; -1: none.
std::int32_t AnswerConstraint::only_token(const State& state) const {
  if (over_budget(state)) return marks_.close()[state.written];
  if (state.phase == Phase::kForcedOpening) return marks_.opening()[state.written];
  return state.phase == Phase::kGap ? marks_.gap()[state.written] : -1;
}

AnswerConstraint::State AnswerConstraint::after(const State& state, std::int32_t token) const {
  State next = state;
  const std::string_view bytes = tokenizer_.token_bytes(token);
  const bool eager = grammar_ && !on_sight_;
  const Phase content = eager ? Phase::kContent : Phase::kFree;
  if (watches(state)) {
    const std::vector<std::int32_t> call = begun(state, token);
    if (!call.empty()) {
      next.phase = Phase::kContent, next.consumed = call.size();
      return next;
    }
    next.watched = marks_.calls().follow(state.watched, bytes);
  } else if (grammar_ && marks_.ends_answer(token)) {
    next.phase = Phase::kEnded;
    return next;
  }
  switch (state.phase) {
    case Phase::kForcedOpening:
      if (++next.written < marks_.opening().size()) break;
      next.written = 0;
      next.phase = Phase::kReasoning;
      break;
    case Phase::kOpening:
      if (eager) {
        const bool opens = token == marks_.open();
        next.phase = opens ? Phase::kReasoning : content;
        next.consumed += opens ? 0 : 1;
      } else {
        next.splitter.push(bytes);
        if (next.splitter.begun()) next.phase = next.splitter.in_reasoning() ? Phase::kReasoning : content;
      }
      break;
    case Phase::kReasoning: {
      next.written += over_budget(state) ? 1 : 0;
      ++next.reasoned;
      bool closed = false;
      if (eager) {
        next.matched = marks_.follow(state.matched, bytes);
        closed = marks_.closed(next.matched);
      } else {
        next.splitter.push(bytes);
        closed = !next.splitter.in_reasoning();
      }
      if (!closed) break;
      next.written = 0;
      const bool gap = eager && !marks_.gap().empty() && !grammar_->has_headers();
      next.phase = gap ? Phase::kGap : content;
      break;
    }
    case Phase::kGap:
      if (++next.written == marks_.gap().size()) next.phase = content;
      break;
    case Phase::kContent:
      ++next.consumed;
      break;
    case Phase::kFree:
    case Phase::kEnded:
      break;
  }
  return next;
}

std::optional<std::span<const std::uint32_t>> AnswerConstraint::mask(std::span<const std::int32_t> drafts) {
  if (!allows(drafts) || !compute(drafts.size())) return std::nullopt;
  return rows_[drafts.size()].mask;
}

bool AnswerConstraint::allows(std::span<const std::int32_t> drafts) {
  if (drafts.size() >= rows_.size()) return false;
  std::size_t same = 0;
  while (same < std::min(drafts.size(), known_) && drafts[same] == rows_[same].draft) ++same;
  if (same < drafts.size()) {
    known_ = same;
    if (matcher_ && matcher_at_ > rows_[same].state.consumed) go_to(rows_[same].state.consumed);
  }
  for (; known_ < drafts.size(); ++known_) {
    const std::int32_t draft = drafts[known_];
    if (!compute(known_) || !allowed(rows_[known_].mask, draft)) return false;
    Row& next = rows_[known_ + 1];
    next.state = after(rows_[known_].state, draft);
    next.masked = false;
    rows_[known_].draft = draft;
    take(rows_[known_].state, next.state, draft);
  }
  return true;
}

/// Computes the mask of a row whose drafts are known.
bool AnswerConstraint::compute(std::size_t index) {
  Row& row = rows_[index];
  if (row.masked) return true;
  const State& state = row.state;
  const std::int32_t only = only_token(state);
  row.mask = row.words;
  if (only >= 0) {
    std::fill(row.words.begin(), row.words.end(), 0);
    row.words[static_cast<std::size_t>(only) / 32] |= 1U << (only % 32);
  } else if (watches(state)) {
    compute_watch(row);
  } else if (state.phase == Phase::kReasoning && grammar_) {
    row.mask = marks_.mask(state.matched);
  } else if (state.phase == Phase::kEnded) {
    row.mask = marks_.ends();
  } else if (grammar_) {
    if (!go_to(state.consumed)) return false;
    if (const Status status = matcher_->mask(row.words); !status.ok()) {
      const Error& why = status.error();
      // A draft's row failed. The state after the emitted tokens is rebuilt and has no error.
      if (index == 0 || !restart()) problem_ = why;
      return false;
    }
    if (state.phase == Phase::kOpening) {
      row.words[static_cast<std::size_t>(*marks_.open()) / 32] |= 1U << (*marks_.open() % 32);
    }
  } else {
    row.mask = {};
  }
  row.masked = true;
  return true;
}

/// Records the tokens that the grammar reads.
void AnswerConstraint::take(const State& before, const State& next, std::int32_t token) {
  if (next.consumed == before.consumed) return;
  if (watches(before)) {
    content_ = begun(before, token);
    return;
  }
  content_.resize(next.consumed);
  content_.back() = token;
}

/// The tokens of a text that ends `rest` bytes before the pattern's end, where the grammar continues.
std::optional<std::vector<std::int32_t>> AnswerConstraint::reached(std::size_t pattern,
                                                                   std::size_t rest) const {
  for (const std::string& marker : marks_.calls().markers(pattern)) {
    if (rest > marker.size()) continue;
    auto ids = tokenizer_.encode(std::string_view(marker).substr(0, marker.size() - rest), false);
    Result<GrammarMatcher> matcher = grammar_->start();
    if (ids.ok() && matcher.ok() && matcher->consume(*ids).ok()) return std::move(*ids);
  }
  return std::nullopt;
}

/// What the grammar reads if a call begins with `token`; empty: none does.
std::vector<std::int32_t> AnswerConstraint::begun(const State& state, std::int32_t token) const {
  const auto has = [&](std::span<const std::int32_t> ids) {
    return std::binary_search(ids.begin(), ids.end(), token);
  };
  for (const auto& found : marks_.calls().completions(state.watched, state.phase == Phase::kReasoning)) {
    const bool longer = has(found.longer);
    if (!longer && !has(found.exact)) continue;
    std::optional<std::vector<std::int32_t>> ids = reached(found.pattern, longer ? found.rest : 0);
    if (!ids) continue;
    if (longer) ids->push_back(token);
    return std::move(*ids);
  }
  return {};
}

/// The mask of a row before a call: all tokens except those that begin a call that the grammar refuses.
void AnswerConstraint::compute_watch(Row& row) {
  const auto cleared = [&](std::span<const std::int32_t> ids) {
    if (ids.empty()) return;
    if (row.mask.empty()) {
      std::fill(row.words.begin(), row.words.end(), ~0U);
      if (const int rest = tokenizer_.vocab_size() % 32; rest != 0) row.words.back() = (1U << rest) - 1;
      row.mask = row.words;
    }
    for (const std::int32_t id : ids) row.words[static_cast<std::size_t>(id) / 32] &= ~(1U << (id % 32));
  };
  row.mask = {};
  cleared(marks_.calls().unaligned());
  for (const auto& found :
       marks_.calls().completions(row.state.watched, row.state.phase == Phase::kReasoning)) {
    if (!begins_[found.pattern]) cleared(found.exact);
    if (found.longer.empty()) continue;
    cleared(found.longer);
    const std::optional<std::vector<std::int32_t>> ids = reached(found.pattern, found.rest);
    if (!ids) continue;
    Result<GrammarMatcher> matcher = grammar_->start();
    std::vector<std::uint32_t> words(row.words.size());
    if (!matcher.ok() || !matcher->consume(*ids).ok() || !matcher->mask(words).ok()) continue;
    for (const std::int32_t id : found.longer) {
      row.words[static_cast<std::size_t>(id) / 32] |=
          words[static_cast<std::size_t>(id) / 32] & (1U << (id % 32));
    }
  }
}

/// Moves the matcher to the state after the first `consumed` tokens of content_.
bool AnswerConstraint::go_to(std::size_t consumed) {
  Status status;
  if (matcher_at_ > consumed) {
    status = matcher_->rollback(matcher_at_ - consumed);
  } else if (matcher_at_ < consumed) {
    status = matcher_->consume(std::span(content_).subspan(matcher_at_, consumed - matcher_at_));
  }
  matcher_at_ = consumed;
  if (status.ok()) return true;
  const Error why = status.error();
  if (consumed == rows_[0].state.consumed || !restart()) problem_ = why;
  return false;
}

/// Makes a new matcher in the state after the emitted tokens; false, with problem_ set, if this fails.
bool AnswerConstraint::restart() {
  if (!grammar_) return true;
  Result<GrammarMatcher> fresh = grammar_->start();
  const std::size_t emitted = rows_[0].state.consumed;
  Status status = fresh.ok() ? fresh->consume(std::span(content_).first(emitted)) : Status(fresh.error());
  if (!status.ok()) {
    problem_ = status.error();
    return false;
  }
  matcher_ = std::move(*fresh);
  matcher_at_ = emitted;
  return true;
}

/// No token is forbidden next.
bool AnswerConstraint::is_free(const State& state) const {
  if (only_token(state) >= 0) return false;
  if (!watches(state)) return grammar_ == nullptr;
  if (!marks_.calls().unaligned().empty()) return false;
  const auto completions = marks_.calls().completions(state.watched, state.phase == Phase::kReasoning);
  return std::ranges::all_of(completions, [&](const auto& found) {
    return found.longer.empty() && (begins_[found.pattern] || found.exact.empty());
  });
}

std::size_t AnswerConstraint::free_rows(std::span<const std::int32_t> tokens) const {
  State state = rows_[0].state;
  std::size_t rows = 0;
  while (is_free(state)) {
    if (rows == tokens.size()) return rows + 1;
    state = after(state, tokens[rows++]);
  }
  return rows;
}

int AnswerConstraint::jump_forward(std::span<std::int32_t> out) {
  State state = rows_[0].state;
  std::size_t count = 0;
  for (; count < out.size(); ++count) {
    const std::int32_t only = only_token(state);
    if (only < 0) break;
    out[count] = only;
    state = after(state, only);
  }
  if (state.phase != Phase::kContent || count == out.size() || !go_to(rows_[0].state.consumed)) {
    return static_cast<int>(count);
  }
  Result<std::vector<std::int32_t>> tokens = matcher_->forced();
  if (!tokens.ok()) return static_cast<int>(count);
  for (std::size_t i = 0; i < tokens->size() && count < out.size(); ++i) out[count++] = (*tokens)[i];
  return static_cast<int>(count);
}

void AnswerConstraint::commit(std::span<const std::int32_t> tokens) {
  std::size_t same = 0;
  while (same < std::min(tokens.size(), known_) && tokens[same] == rows_[same].draft) ++same;
  State state = rows_[same].state;
  if (matcher_ && matcher_at_ > state.consumed) go_to(state.consumed);
  for (const std::int32_t token : tokens.subspan(same)) {
    State next = after(state, token);
    take(state, next, token);
    state = std::move(next);
  }
  rows_[0].state = std::move(state);
  rows_[0].masked = false;
  known_ = 0;
}

}  // namespace ft
