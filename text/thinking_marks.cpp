#include "text/thinking_marks.h"

#include <algorithm>

namespace ft {

ThinkingMarks::ThinkingMarks(const Tokenizer& tokenizer, std::span<const int32_t> eos)
    : open_(tokenizer.id_of("<think>")), eos_(eos.begin(), eos.end()) {
  if (auto close = tokenizer.encode(kClose, false); close.ok()) close_ = std::move(*close);
  if (auto gap = tokenizer.encode("\n\n", false); gap.ok()) gap_ = std::move(*gap);
  const int32_t count = tokenizer.vocab_size();
  ends_.assign((static_cast<size_t>(count) + 31) / 32, 0);
  for (const int32_t id : eos_) {
    if (id >= 0 && id < count) ends_[static_cast<size_t>(id) / 32] |= 1U << (id % 32);
  }
  for (size_t matched = 0; matched < masks_.size(); ++matched) {
    masks_[matched].assign((static_cast<size_t>(count) + 31) / 32, 0);
    for (int32_t id = 0; id < count; ++id) {
      const std::string_view bytes = tokenizer.token_bytes(id);
      if (bytes.empty() || ends_answer(id)) continue;
      // A close inside the token gives the same text, one byte shorter, because it is already closed.
      const bool early = follow(matched, bytes.substr(0, bytes.size() - 1)) == kClose.size();
      if (!early) masks_[matched][static_cast<size_t>(id) / 32] |= 1U << (id % 32);
    }
  }
}

bool ThinkingMarks::ends_answer(int32_t token) const {
  return std::find(eos_.begin(), eos_.end(), token) != eos_.end();
}

size_t ThinkingMarks::follow(size_t matched, std::string_view bytes) {
  for (const char c : bytes) {
    if (matched == kClose.size()) return matched;
    // No proper prefix of </think> ends in another one except "<".
    matched = c == kClose[matched] ? matched + 1 : c == '<' ? 1 : 0;
  }
  return matched;
}

}  // namespace ft
