// Ffi: what crosses to the Rust library and back, as C++ values: owned buffers and Errors. Included by .cpp
// files of text/ only.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "text_ffi/foretoken_text.h"

namespace ft {

/// A buffer that the library fills and this object gives back.
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

/// `code` is not FT_TEXT_OK; `context` begins the sentence: "tokenizer.json: ".
Error ffi_error(ft_text_code code, const FfiBytes& message, const std::string& context);

/// The whole file, or what is wrong with it and what to do.
Result<std::string> read_text_file(const std::string& path, size_t max_bytes);

}  // namespace ft
