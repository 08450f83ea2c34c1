// Tokenizer: text to token ids and back, by the model's own tokenizer.json (Hugging Face tokenizers inside,
// so the ids are those of transformers). Owner: the loaded model. Thread: const methods may run on any number
// of threads at once. Cost: load parses the file and keeps every token's bytes (about 0.2 s and 10 MB for
// 250,000 tokens); encode is linear; token_bytes is O(1). Errors: a file that is absent, oversized, malformed
// or of an unknown kind; a text beyond kMaxEncodeBytes.
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
  /// `json` is the content of a tokenizer.json; `name` is how messages call it.
  static Result<Tokenizer> parse(std::string_view json, const std::string& name);

  /// `add_special` asks the post-processor for its BOS/EOS; rendered chat templates bring their own.
  Result<std::vector<int32_t>> encode(std::string_view text, bool add_special) const;

  /// The bytes of all ids joined, malformed UTF-8 as U+FFFD. Ids without a token stand for nothing.
  std::string decode(std::span<const int32_t> ids, bool skip_special) const;

  /// What `id` stands for; may be part of a character. Added tokens are literal; empty for an id without a
  /// token.
  std::string_view token_bytes(int32_t id) const;
  /// An added token marked special, as <|im_end|>; the tags of chat formats are added but not special.
  bool is_special(int32_t id) const;
  /// Matched in the text before the model runs, special or not.
  bool is_added(int32_t id) const;
  /// The id of a token by its content in tokenizer.json, for control tokens.
  std::optional<int32_t> id_of(std::string_view content) const;
  /// One more than the highest id; the model's matrices may have more rows.
  int32_t vocab_size() const { return static_cast<int32_t>(flags_.size()); }
  /// The most bytes of text that one token stands for, so that a text of more than n times as many has more
  /// than n tokens, known without encoding it. 0: this tokenizer has no such bound.
  size_t text_per_token() const { return text_per_token_; }
  /// For text/grammar.cpp.
  const ft_text_tokenizer* handle() const { return handle_.get(); }

 private:
  struct Deleter {
    void operator()(ft_text_tokenizer* handle) const;
  };

  Tokenizer() = default;
  Status read_tokens();
  bool has(int32_t id) const { return id >= 0 && static_cast<size_t>(id) < flags_.size(); }

  std::unique_ptr<ft_text_tokenizer, Deleter> handle_;
  std::string bytes_;             // of all tokens, in order of id
  std::vector<uint32_t> starts_;  // (vocab_size + 1) offsets into bytes_
  std::vector<uint8_t> flags_;    // (vocab_size) FT_TEXT_TOKEN_*
  size_t text_per_token_ = 0;     // bytes
};

}  // namespace ft
