#include "text/thinking.h"

#include <algorithm>
#include <utility>

#include "text/tags.h"

namespace ft {

namespace {

bool ends_with_tag(std::string_view prompt, std::string_view tag) {
  return !tag.empty() && prompt.substr(0, prompt.find_last_not_of(kTagSpace) + 1).ends_with(tag);
}

}  // namespace

bool prompt_opens_thinking(std::string_view prompt, const ReasoningTags& tags) {
  return ends_with_tag(prompt, tags.open);
}

bool prompt_closes_thinking(std::string_view prompt, const ReasoningTags& tags) {
  return ends_with_tag(prompt, tags.close) || ends_with_tag(prompt, tags.header);
}

ThinkingSplitter::ThinkingSplitter(const ChatFormat& format, const ThinkingOptions& options)
    : format_(&format),
      options_(options),
      state_(format.reasoning.open.empty() ? State::kContent
             : options.starts_in_reasoning ? State::kReasoning
                                           : State::kStart) {
  options_.tool_call_ends_reasoning = options.tool_call_ends_reasoning && format.calls.parser != nullptr;
}

ThinkingSplitter::Piece ThinkingSplitter::push(std::string_view text) {
  Piece piece;
  held_ += text;
  while (step(piece, /*last=*/false)) {
  }
  return piece;
}

ThinkingSplitter::Piece ThinkingSplitter::finish() {
  Piece piece;
  while (step(piece, /*last=*/true)) {
  }
  return piece;
}

/// Processes the part of held_ that is decided. False if more text is needed.
bool ThinkingSplitter::step(Piece& piece, bool last) {
  if (held_.empty()) {
    return false;
  }
  switch (state_) {
    case State::kStart:
      return step_start(piece, last);
    case State::kReasoning:
      return step_reasoning(piece, last);
    case State::kGap:
      return step_gap(last);
    case State::kWrapped:
      return step_wrapped(piece, last);
    case State::kContent:
      piece.content += std::exchange(held_, {});
      return false;
  }
  return false;
}

bool ThinkingSplitter::step_start(Piece& piece, bool last) {
  const TagMatch open = match_tag(held_, {}, format_->reasoning.open);
  if (open.kind == TagMatch::kFull) {
    held_.erase(0, open.size);
    state_ = State::kReasoning;
    return !held_.empty();
  }
  if (open.kind == TagMatch::kPartial && !last) {
    return false;
  }
  state_ = State::kContent;
  return step(piece, last);
}

bool ThinkingSplitter::step_reasoning(Piece& piece, bool last) {
  const std::string_view close_tag = format_->reasoning.close;
  const ToolCallSyntax& calls = format_->calls;
  const char first[] = {close_tag.front(),
                        options_.tool_call_ends_reasoning ? calls.begin.front() : close_tag.front()};
  size_t from = 0;  // of the text not yet taken
  bool more = false;
  while (from < held_.size()) {
    const size_t tag = std::min(held_.find_first_of(std::string_view(first, 2), from), held_.size());
    add_reasoning(std::string_view(held_).substr(from, tag - from), piece);
    from = tag;
    const std::string_view rest = std::string_view(held_).substr(from);
    const TagMatch close = match_tag(rest, close_tag, {});
    if (close.kind == TagMatch::kFull) {
      from += close.size;
      state_ = State::kGap;
      newlines_ = 0;
      more = true;
      break;
    }
    const TagMatch call =
        options_.tool_call_ends_reasoning ? match_tag(rest, calls.begin, calls.inner) : TagMatch{};
    if (call.kind == TagMatch::kFull) {
      state_ = State::kContent;
      newlines_ = 0;
      more = true;
      break;
    }
    const bool undecided = close.kind == TagMatch::kPartial || call.kind == TagMatch::kPartial;
    if (rest.empty() || (undecided && !last)) {
      break;
    }
    add_reasoning(rest.substr(0, 1), piece);
    ++from;
  }
  held_.erase(0, from);
  return more && !held_.empty();
}

bool ThinkingSplitter::step_gap(bool last) {
  held_.erase(0, held_.find_first_not_of('\n'));
  if (held_.empty()) {
    return false;
  }
  const std::string_view open = format_->reasoning.content_open;
  const TagMatch tag = open.empty() ? TagMatch{} : match_tag(held_, open, {});
  if (tag.kind == TagMatch::kPartial && !last) {
    return false;
  }
  state_ = State::kContent;
  if (tag.kind == TagMatch::kFull) {
    held_.erase(0, tag.size);
    state_ = State::kWrapped, begins_ = true;
  }
  return !held_.empty();
}

bool ThinkingSplitter::step_wrapped(Piece& piece, bool last) {
  const std::string_view close = format_->reasoning.content_close;
  if (begins_) held_.erase(0, held_.find_first_not_of('\n'));
  begins_ = begins_ && held_.empty();
  size_t from = 0;
  while (from < held_.size()) {
    const size_t begin = std::min(held_.find(close.front(), from), held_.size());
    piece.content.append(held_, from, begin - from);
    from = begin;
    const TagMatch tag = match_tag(std::string_view(held_).substr(from), close, {});
    if (tag.kind == TagMatch::kFull) {
      held_.erase(0, from + tag.size);
      state_ = State::kContent;
      return !held_.empty();
    }
    if (from == held_.size() || (tag.kind == TagMatch::kPartial && !last)) {
      break;
    }
    piece.content += held_[from++];
  }
  held_.erase(0, from);
  return false;
}

/// Emits `text` without its trailing newlines, which are held, and drops newlines before the first other
/// character.
void ThinkingSplitter::add_reasoning(std::string_view text, Piece& piece) {
  for (const char c : text) {
    if (c == '\n') {
      newlines_ += reasoned_ ? 1 : 0;
      continue;
    }
    piece.reasoning.append(std::exchange(newlines_, 0), '\n');
    piece.reasoning += c;
    reasoned_ = true;
  }
}

}  // namespace ft
