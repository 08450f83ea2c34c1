#include "cli/commands/model_texts.h"

#include <filesystem>

#include "format/gguf/files.h"
#include "models/gguf/model_file.h"
#include "text/end_token.h"

namespace ft::cli {

Result<ModelTexts> ModelTexts::open(const std::string& place) {
  ModelTexts found;
  found.place_ = place;
  found.gguf_ = format::is_gguf_file(place);
  if (found.gguf_) {
    FT_ASSIGN(found.texts_, gguf::read_texts(place));
  }
  return found;
}

std::string ModelTexts::text(const char* name) const {
  const auto at = texts_.find(name);
  return at == texts_.end() ? std::string() : at->second;
}

Result<Tokenizer> ModelTexts::tokenizer() const {
  return gguf_ ? Tokenizer::parse(text("tokenizer.json"), place_) : Tokenizer::load(place_);
}

Result<ChatTemplate> ModelTexts::chat_template() const {
  if (!gguf_) return ChatTemplate::load(place_);
  return ChatTemplate::parse(text("tokenizer_config.json"), text("chat_template.jinja"), place_);
}

std::optional<std::int32_t> ModelTexts::end_token(const Tokenizer& tokenizer) const {
  return gguf_ ? end_token_in(text("tokenizer_config.json"), tokenizer) : end_token_of(place_, tokenizer);
}

bool has_tokenizer(const std::string& place) {
  std::error_code ignored;
  if (!format::is_gguf_file(place))
    return std::filesystem::exists(std::filesystem::path(place) / "tokenizer.json", ignored);
  const auto texts = gguf::read_texts(place);
  return texts.ok() || texts.error().code != Code::kNotFound;
}

Result<Tokenizer> read_tokenizer(const std::string& place) {
  FT_ASSIGN(const ModelTexts texts, ModelTexts::open(place));
  return texts.tokenizer();
}

}  // namespace ft::cli
