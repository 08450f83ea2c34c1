#include "text/call_watch.h"

#include <algorithm>

#include "text/tags.h"

namespace ft {

namespace {

bool is_space(char c) { return kTagSpace.find(c) != std::string_view::npos; }

std::vector<size_t> pattern_borders(std::string_view text) {
  std::vector<size_t> borders(text.size() + 1, 0);
  for (size_t size = 2; size <= text.size(); ++size) {
    size_t border = borders[size - 1];
    while (border > 0 && text[border] != text[size - 1]) border = borders[border];
    borders[size] = text[border] == text[size - 1] ? border + 1 : 0;
  }
  return borders;
}

}  // namespace

CallWatch::CallWatch(const Tokenizer& tokenizer, const ChatFormat& format) {
  const ToolCallSyntax& calls = format.calls;
  // A call that is the whole answer, without a header, is not searched: the grammar sees all of it.
  if (calls.body == nullptr || (calls.whole_answer && !format.channels)) return;
  const std::string begin(calls.begin), inner(calls.inner);
  const std::vector<std::string> inside = {begin + inner, begin + "\n" + inner};
  for (const std::string_view opening : calls.openings) {
    std::vector<std::string> markers;
    if (format.channels) {
      markers = {begin.substr(0, begin.rfind('=') + 1)};
    } else if (opening == begin) {
      markers = {begin};
    } else if (!inner.empty() && opening == inner) {
      markers = inside;
    }
    add(std::string(opening), format.channels || (opening == begin && inner.empty()), true,
        std::move(markers));
  }
  if (!inner.empty() && !format.channels) add(begin + inner, true, false, inside, begin.size());
  const int32_t count = tokenizer.vocab_size();
  for (int32_t id = 0; id < count; ++id) {
    const std::string_view bytes = tokenizer.token_bytes(id);
    bool unaligned = false;
    for (Pattern& pattern : patterns_) {
      const std::string_view text = pattern.text;
      for (size_t at = 0; at < text.size() && !bytes.empty(); ++at) {
        if (bytes[0] != text[at] || !bytes.starts_with(text.substr(at))) continue;
        (bytes.size() + at == text.size() ? pattern.exact : pattern.longer)[at].push_back(id);
      }
      const size_t inner_at = bytes.find(text, 1);
      unaligned = unaligned || (!bytes.empty() && inner_at != std::string_view::npos);
    }
    if (unaligned) unaligned_.push_back(id);
  }
}

void CallWatch::add(std::string text, bool in_reasoning, bool in_content, std::vector<std::string> markers,
                    size_t gap) {
  Pattern pattern;
  pattern.longer.resize(text.size()), pattern.exact.resize(text.size());
  pattern.borders = pattern_borders(text);
  pattern.text = std::move(text), pattern.gap = gap;
  pattern.in_reasoning = in_reasoning, pattern.in_content = in_content, pattern.markers = std::move(markers);
  patterns_.push_back(std::move(pattern));
}

CallWatch::Matched CallWatch::follow(Matched matched, std::string_view bytes) const {
  for (size_t p = 0; p < patterns_.size(); ++p) {
    const Pattern& pattern = patterns_[p];
    size_t at = matched[p];
    for (const char c : bytes) {
      if (at == pattern.text.size()) at = pattern.borders[at];
      if (at == pattern.gap && is_space(c)) continue;
      while (at > 0 && pattern.text[at] != c) at = pattern.borders[at];
      at += pattern.text[at] == c ? 1 : 0;
    }
    matched[p] = static_cast<uint8_t>(at);
  }
  return matched;
}

std::vector<CallWatch::Completion> CallWatch::completions(const Matched& matched, bool in_reasoning) const {
  std::vector<Completion> found;
  for (size_t p = 0; p < patterns_.size(); ++p) {
    const Pattern& pattern = patterns_[p];
    if (in_reasoning ? !pattern.in_reasoning : !pattern.in_content) continue;
    size_t at = matched[p];
    if (at == pattern.text.size()) at = pattern.borders[at];
    for (;; at = pattern.borders[at]) {
      if (!pattern.longer[at].empty() || !pattern.exact[at].empty()) {
        found.push_back({p, pattern.text.size() - at, pattern.longer[at], pattern.exact[at]});
      }
      if (at == 0) break;
    }
  }
  return found;
}

}  // namespace ft
