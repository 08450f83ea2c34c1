// C++ wrappers of the Rust library's values: owned buffers and Errors. Only .cpp files of text/ include this
// header.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "text_ffi/foretoken_text.h"

namespace ft {

/// A buffer that the library fills; the destructor frees it.
struct FfiBytes {
  ft_text_bytes raw{};

  FfiBytes() = default;
  FfiBytes(const FfiBytes&) = delete;
  FfiBytes& operator=(const FfiBytes&) = delete;
  ~FfiBytes() { ft_text_bytes_free(&raw); }

  std::string_view view() const { return {reinterpret_cast<const char*>(raw.data), raw.size}; }
};

struct FfiIds {
  ft_text_ids raw{};

  FfiIds() = default;
  FfiIds(const FfiIds&) = delete;
  FfiIds& operator=(const FfiIds&) = delete;
  ~FfiIds() { ft_text_ids_free(&raw); }
};

inline const uint8_t* ffi_data(std::string_view text) {
  return reinterpret_cast<const uint8_t*>(text.data());
}

/// `code` must not be FT_TEXT_OK; `context` starts the sentence: "tokenizer.json: ".
Error ffi_error(ft_text_code code, const FfiBytes& message, const std::string& context);

/// A file of a model folder, whole, or an error with the next step.
Result<std::string> read_model_text(const std::string& path, size_t max_bytes);

}  // namespace ft
