#include "text/thinking_marks.h"

#include <algorithm>

namespace ft {

namespace {

std::vector<size_t> borders_of(std::string_view tag) {
  std::vector<size_t> borders(tag.size() + 1, 0);
  for (size_t size = 2; size <= tag.size(); ++size) {
    size_t border = borders[size - 1];
    while (border > 0 && tag[border] != tag[size - 1]) border = borders[border];
    borders[size] = tag[border] == tag[size - 1] ? border + 1 : 0;
  }
  return borders;
}

/// The tag itself, or the added token that it begins with.
std::optional<int32_t> opening_token(const Tokenizer& tokenizer, std::string_view tag) {
  if (const std::optional<int32_t> whole = tokenizer.id_of(tag)) return whole;
  const auto ids = tokenizer.encode(tag, false);
  if (!ids.ok() || ids->empty() || !tokenizer.is_added(ids->front())) return std::nullopt;
  return ids->front();
}

}  // namespace

ThinkingMarks::ThinkingMarks(const Tokenizer& tokenizer, std::span<const int32_t> eos,
                             const ChatFormat& format)
    : format_(format),
      calls_(tokenizer, format),
      borders_(borders_of(format.reasoning.close)),
      eos_(eos.begin(), eos.end()) {
  const ReasoningTags& tags = format.reasoning;
  masks_.resize(tags.close.size());
  if (!tags.open.empty()) open_ = opening_token(tokenizer, tags.open);
  if (auto opening = tokenizer.encode(tags.open, false); opening.ok()) opening_ = std::move(*opening);
  if (auto close = tokenizer.encode(tags.close, false); close.ok()) close_ = std::move(*close);
  if (auto gap = tokenizer.encode(tags.gap, false); gap.ok()) gap_ = std::move(*gap);
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
      // If a close ends inside the token, the same text without its last byte is closed already.
      const bool early = closed(follow(matched, bytes.substr(0, bytes.size() - 1)));
      if (!early) masks_[matched][static_cast<size_t>(id) / 32] |= 1U << (id % 32);
    }
  }
}

bool ThinkingMarks::ends_answer(int32_t token) const {
  return std::find(eos_.begin(), eos_.end(), token) != eos_.end();
}

size_t ThinkingMarks::follow(size_t matched, std::string_view bytes) const {
  const std::string_view tag = format_.reasoning.close;
  for (const char c : bytes) {
    if (matched == tag.size()) return matched;
    while (matched > 0 && tag[matched] != c) matched = borders_[matched];
    if (tag[matched] == c) ++matched;
  }
  return matched;
}

}  // namespace ft
