#include "text/ffi.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

#include "base/text_file.h"

namespace ft {

Error ffi_error(ft_text_code code, const FfiBytes& message, const std::string& context) {
  Code kind = Code::kInvalid;
  switch (code) {
    case FT_TEXT_CORRUPT:
      kind = Code::kCorrupt;
      break;
    case FT_TEXT_UNSUPPORTED:
      kind = Code::kUnsupported;
      break;
    case FT_TEXT_EXHAUSTED:
      kind = Code::kExhausted;
      break;
    case FT_TEXT_PANIC:
      kind = Code::kIo;
      break;
    default:
      break;
  }
  return Error{kind, context + std::string(message.view())};
}

Result<std::string> read_model_text(const std::string& path, size_t max_bytes) {
  std::error_code ignored;
  const auto size = std::filesystem::file_size(path, ignored);
  if (ignored) {
    const bool absent = ignored == std::errc::no_such_file_or_directory;
    return Error{absent ? Code::kNotFound : Code::kIo,
                 path + " cannot be read (" + ignored.message() +
                     "); check that the model folder is correct and complete"};
  }
  if (size > max_bytes) {
    return Error{Code::kExhausted, path + " has " + std::to_string(size) + " bytes, more than the limit of " +
                                       std::to_string(max_bytes) + "; check that this is the right file"};
  }
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (!file) {
    return Error{Code::kIo, path + " cannot be opened (" + std::strerror(errno) + "); check its permissions"};
  }
  std::string text(size, '\0');
  const size_t got = std::fread(text.data(), 1, text.size(), file.get());
  if (got != text.size()) {
    return Error{Code::kIo, path + " ended after " + std::to_string(got) + " of " + std::to_string(size) +
                                " bytes; try again, or fetch the model again"};
  }
  return std::string(without_byte_order_mark(text));
}

}  // namespace ft
