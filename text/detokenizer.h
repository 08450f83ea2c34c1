// Detokenizer: the token ids of one answer, one at a time, to text in whole characters. What all pushes and
// the flush return, joined, is Tokenizer::decode of all ids, however characters are spread over tokens. A
// malformed sequence becomes U+FFFD where Python's errors="replace" puts it. Owner: one answer. Thread: one.
// Cost: O(bytes of the token); holds at most 3 bytes. No errors: an id without a token adds nothing.
#pragma once

#include <cstdint>
#include <string>

#include "text/tokenizer.h"

namespace ft {

class Detokenizer {
 public:
  /// `tokenizer` outlives this object.
  Detokenizer(const Tokenizer& tokenizer, bool skip_special)
      : tokenizer_(&tokenizer), skip_special_(skip_special) {}

  /// The characters that `id` completes; empty while one is unfinished.
  std::string push(int32_t id);

  /// Ends the answer: an unfinished character becomes U+FFFD.
  std::string flush();

 private:
  const Tokenizer* tokenizer_;
  bool skip_special_;
  std::string pending_;  // the beginning of a character, 0 to 3 bytes
};

}  // namespace ft
