#include "text/tags.h"

#include <algorithm>

namespace ft {

namespace {

TagMatch match_literal(std::string_view text, std::string_view literal) {
  if (text.starts_with(literal)) {
    return {TagMatch::kFull, literal.size()};
  }
  return {literal.starts_with(text) ? TagMatch::kPartial : TagMatch::kNone, 0};
}

}  // namespace

TagMatch match_tag(std::string_view text, std::string_view first, std::string_view second) {
  const TagMatch head = match_literal(text, first);
  if (head.kind != TagMatch::kFull || second.empty()) {
    return head;
  }
  const std::string_view rest = text.substr(head.size);
  const size_t gap = std::min(rest.find_first_not_of(kTagSpace), rest.size());
  if (gap > kMaxTagGap) {
    return {};
  }
  const TagMatch tail = match_literal(rest.substr(gap), second);
  return {tail.kind, tail.kind == TagMatch::kFull ? head.size + gap + tail.size : 0};
}

}  // namespace ft
