// The tokenizer and the chat template of a model, from its folder or from the metadata of its GGUF file.
// Errors: as Tokenizer, ChatTemplate and gguf::read_texts.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/result.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace ft::cli {

class ModelTexts {
 public:
  /// `place`: a model folder, whose files are read later, or a GGUF file, whose header is read now.
  static Result<ModelTexts> open(const std::string& place);

  Result<Tokenizer> tokenizer() const;
  Result<ChatTemplate> chat_template() const;
  std::optional<std::int32_t> end_token(const Tokenizer& tokenizer) const;

 private:
  /// Empty: the file has no such text.
  std::string text(const char* name) const;

  std::string place_;
  bool gguf_ = false;
  std::map<std::string, std::string> texts_;  // of a GGUF file, by file name
};

/// True for a folder with tokenizer.json, and for a GGUF file with a tokenizer of any kind.
bool has_tokenizer(const std::string& place);
Result<Tokenizer> read_tokenizer(const std::string& place);

}  // namespace ft::cli
