// Tokenizer: text to token ids and back, by the model's tokenizer.json. It uses Hugging Face tokenizers, so
// the ids equal transformers' ids. The loaded model owns it, and const methods may run on several threads at
// once. Loading parses the file and keeps every token's bytes (about 0.2 s and 10 MB for 250,000 tokens);
// encode is linear; token_bytes is O(1). Errors: a missing, oversized, malformed, or unsupported file; a text
// beyond kMaxEncodeBytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

struct ft_text_tokenizer;

namespace ft {

inline constexpr size_t kMaxTokenizerFileBytes = size_t{128} << 20;
inline constexpr size_t kMaxEncodeBytes = size_t{64} << 20;

class Tokenizer {
 public:
  /// Reads `model_dir`/tokenizer.json.
  static Result<Tokenizer> load(const std::string& model_dir);
  /// `json` is the content of a tokenizer.json; `name` is its name in messages.
  static Result<Tokenizer> parse(std::string_view json, const std::string& name);

  /// `add_special` adds the post-processor's BOS/EOS; rendered chat templates contain their own.
  Result<std::vector<int32_t>> encode(std::string_view text, bool add_special) const;

  /// The bytes of all ids joined, with malformed UTF-8 as U+FFFD. Ids without a token add nothing.
  std::string decode(std::span<const int32_t> ids, bool skip_special) const;

  /// The bytes of `id`, which may be part of a character. Added tokens are literal; empty for an id without a
  /// token.
  std::string_view token_bytes(int32_t id) const;
  /// An added token marked special, as <|im_end|>; the tags of chat formats are added but not special.
  bool is_special(int32_t id) const;
  /// True for an added token, special or not; it is matched before the tokenizer's model runs.
  bool is_added(int32_t id) const;
  /// The id of a token by its content in tokenizer.json; for control tokens.
  std::optional<int32_t> id_of(std::string_view content) const;
  /// The highest id plus one; the model's matrices may have more rows.
  int32_t vocab_size() const { return static_cast<int32_t>(flags_.size()); }
  /// Max bytes of text per token: a text of more than n times this size has more than n tokens, known without
  /// encoding it. 0: no such bound.
  size_t text_per_token() const { return text_per_token_; }
  /// The library's handle, for text/grammar.cpp.
  const ft_text_tokenizer* handle() const { return handle_.get(); }

 private:
  struct Deleter {
    void operator()(ft_text_tokenizer* handle) const;
  };

  Tokenizer() = default;
  Status read_tokens();
  bool has(int32_t id) const { return id >= 0 && static_cast<size_t>(id) < flags_.size(); }

  std::unique_ptr<ft_text_tokenizer, Deleter> handle_;
  std::string bytes_;             // all tokens' bytes in order of id
  std::vector<uint32_t> starts_;  // (vocab_size + 1) offsets into bytes_
  std::vector<uint8_t> flags_;    // (vocab_size) FT_TEXT_TOKEN_*
  size_t text_per_token_ = 0;     // bytes
};

}  // namespace ft
