// Feeds arbitrary text: it encodes, or is refused as malformed UTF-8. Encoded text decodes to its NFC form,
// so decoding and encoding again changes nothing.
#include <cstdlib>

#include "base/utf8.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto tokenizer =
      ft::Tokenizer::load("assets/qwen3.5-tiny");  // from the root of the repository
  if (!tokenizer.ok()) {
    std::abort();
  }
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto ids = tokenizer->encode(text, false);
  if (ids.ok() != ft::utf8_valid(text)) {
    std::abort();
  }
  if (!ids.ok()) {
    return 0;
  }
  const std::string decoded = tokenizer->decode(*ids, false);
  ft::Detokenizer detokenizer(*tokenizer, false);
  std::string streamed;
  for (const int32_t id : *ids) {
    streamed += detokenizer.push(id);
  }
  const auto again = tokenizer->encode(decoded, false);
  if (streamed + detokenizer.flush() != decoded || !again.ok() ||
      tokenizer->decode(*again, false) != decoded) {
    std::abort();
  }
  return 0;
}
