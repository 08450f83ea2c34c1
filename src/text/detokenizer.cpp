#include "text/detokenizer.h"

#include <algorithm>
#include <utility>

#include "base/utf8.h"

namespace ft {

std::string Detokenizer::push(int32_t id) {
  if (skip_special_ && tokenizer_->is_special(id) && std::ranges::find(kept_, id) == kept_.end()) {
    return {};
  }
  pending_ += tokenizer_->token_bytes(id);
  const size_t complete = utf8_complete_prefix(pending_);
  std::string text = utf8_replace_invalid(std::string_view(pending_).substr(0, complete));
  pending_.erase(0, complete);
  return text;
}

std::string Detokenizer::flush() { return utf8_replace_invalid(std::exchange(pending_, {})); }

}  // namespace ft
