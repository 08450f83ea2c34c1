#include "text/grammar_tags.h"

#include <algorithm>
#include <fmt/format.h>

#include "text/json_text.h"

namespace ft {

std::optional<std::string> GrammarTags::token(std::string_view tag) const {
  const std::optional<int32_t> id = tokenizer_.id_of(tag);
  if (!id || !tokenizer_.is_added(*id)) return std::nullopt;
  return fmt::format("<[{}]>", *id);
}

std::string GrammarTags::expression(std::string_view text) const {
  std::string all, plain;
  const auto add = [&](const std::string& part) { all += (all.empty() ? "" : " ") + part; };
  const auto flush = [&] {
    if (!plain.empty()) add(json_quoted(plain));
    plain.clear();
  };
  while (!text.empty()) {
    size_t size = text.size();  // of the next part: a tag, or the text before one
    for (const std::string_view special : special_) {
      const size_t at = text.find(special);
      if (at != std::string_view::npos) size = std::min(size, at == 0 ? special.size() : at);
    }
    const std::string_view part = text.substr(0, size);
    if (const std::optional<std::string> one = token(part)) {
      flush();
      add(*one);
    } else {
      plain += part;
    }
    text.remove_prefix(size);
  }
  flush();
  return all;
}

}  // namespace ft
