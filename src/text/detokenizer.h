// Detokenizer: converts the token ids of one answer, one at a time, to text in whole characters. The results
// of all pushes and the flush, joined, equal Tokenizer::decode of all ids, however characters are split over
// tokens. A malformed sequence becomes U+FFFD where Python's errors="replace" puts it. Memory: up to 3 bytes.
// An id without a token adds nothing.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "text/tokenizer.h"

namespace ft {

class Detokenizer {
 public:
  /// `tokenizer` must outlive this object. `kept` are special tokens that are not skipped.
  Detokenizer(const Tokenizer& tokenizer, bool skip_special, std::vector<int32_t> kept = {})
      : tokenizer_(&tokenizer), skip_special_(skip_special), kept_(std::move(kept)) {}

  /// The characters that `id` completes; empty while a character is incomplete.
  std::string push(int32_t id);

  /// Ends the answer: an incomplete character becomes U+FFFD.
  std::string flush();

 private:
  const Tokenizer* tokenizer_;
  bool skip_special_;
  std::vector<int32_t> kept_;
  std::string pending_;  // start of a character, 0 to 3 bytes
};

}  // namespace ft
