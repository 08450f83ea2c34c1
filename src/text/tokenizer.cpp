#include "text/tokenizer.h"

#include <algorithm>

#include "base/utf8.h"
#include "text/ffi.h"

namespace ft {

void Tokenizer::Deleter::operator()(ft_text_tokenizer* handle) const { ft_text_tokenizer_free(handle); }

Result<Tokenizer> Tokenizer::load(const std::string& model_dir) {
  const std::string path = model_dir + "/tokenizer.json";
  FT_ASSIGN(const std::string json, read_model_text(path, kMaxTokenizerFileBytes));
  return parse(json, path);
}

Result<Tokenizer> Tokenizer::parse(std::string_view json, const std::string& name) {
  Tokenizer tokenizer;
  ft_text_tokenizer* handle = nullptr;
  FfiBytes message;
  if (const auto code = ft_text_tokenizer_new(ffi_data(json), json.size(), &handle, &message.raw);
      code != FT_TEXT_OK) {
    Error error = ffi_error(code, message, name + " is not a usable tokenizer: ");
    error.message += "; fetch the model again, or convert it with a current transformers";
    return error;
  }
  tokenizer.handle_.reset(handle);
  FT_TRY(tokenizer.read_tokens());
  return tokenizer;
}

Status Tokenizer::read_tokens() {
  // An id above this limit is an error in the file: no vocabulary needs a table that large.
  constexpr uint32_t kMaxVocabulary = 4u << 20;
  const uint32_t count = ft_text_tokenizer_vocab_size(handle_.get());
  if (count > kMaxVocabulary) {
    return Error{Code::kCorrupt, "tokenizer.json has a token with id " + std::to_string(count - 1) +
                                     ", beyond every known vocabulary; fetch the model again"};
  }
  flags_.assign(count, 0);
  starts_.assign(count + 1, 0);
  uint32_t longest = 0;  // bytes
  for (uint32_t id = 0; id < count; ++id) {
    FfiBytes bytes;
    uint32_t flags = 0;
    if (ft_text_tokenizer_token(handle_.get(), id, &bytes.raw, &flags, nullptr) == FT_TEXT_OK) {
      bytes_ += bytes.view();
      flags_[id] = static_cast<uint8_t>(flags);
    }
    starts_[id + 1] = static_cast<uint32_t>(bytes_.size());
    longest = std::max(longest, starts_[id + 1] - starts_[id]);
  }
  text_per_token_ = std::size_t{longest} * ft_text_tokenizer_text_per_byte(handle_.get());
  return {};
}

Result<std::vector<int32_t>> Tokenizer::encode(std::string_view text, bool add_special) const {
  if (text.size() > kMaxEncodeBytes) {
    return Error{Code::kTooLong, "the text has " + std::to_string(text.size()) +
                                     " bytes, more than the limit of " + std::to_string(kMaxEncodeBytes) +
                                     "; send less"};
  }
  FfiIds ids;
  FfiBytes message;
  if (const auto code = ft_text_tokenizer_encode(handle_.get(), ffi_data(text), text.size(),
                                                 add_special ? 1 : 0, &ids.raw, &message.raw);
      code != FT_TEXT_OK) {
    return ffi_error(code, message, "");
  }
  return std::vector<int32_t>(ids.raw.data, ids.raw.data + ids.raw.size);
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special) const {
  std::string bytes;
  for (const int32_t id : ids) {
    if (!skip_special || !is_special(id)) {
      bytes += token_bytes(id);
    }
  }
  return utf8_replace_invalid(bytes);
}

std::string_view Tokenizer::token_bytes(int32_t id) const {
  if (!has(id)) {
    return {};
  }
  const auto at = static_cast<size_t>(id);
  return std::string_view(bytes_).substr(starts_[at], starts_[at + 1] - starts_[at]);
}

bool Tokenizer::is_special(int32_t id) const {
  return has(id) && (flags_[static_cast<size_t>(id)] & FT_TEXT_TOKEN_SPECIAL) != 0;
}

bool Tokenizer::is_added(int32_t id) const {
  return has(id) && (flags_[static_cast<size_t>(id)] & FT_TEXT_TOKEN_ADDED) != 0;
}

std::optional<int32_t> Tokenizer::id_of(std::string_view content) const {
  uint32_t id = 0;
  if (ft_text_tokenizer_id(handle_.get(), ffi_data(content), content.size(), &id) != FT_TEXT_OK) {
    return std::nullopt;
  }
  return static_cast<int32_t>(id);
}

}  // namespace ft
