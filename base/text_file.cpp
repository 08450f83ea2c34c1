#include "base/text_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ft {
namespace {

Result<std::string> read_all(int file, const std::string& name, std::size_t limit_bytes) {
  std::string text;
  for (;;) {
    char buffer[1 << 16];
    const ssize_t got = ::read(file, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Error{Code::kIo, fmt::format("{} cannot be read: {}", name, std::strerror(errno))};
    if (got == 0) return text;
    text.append(buffer, static_cast<std::size_t>(got));
    if (text.size() > limit_bytes) {
      return Error{Code::kExhausted,
                   fmt::format("{} is larger than {} bytes; shorten it", name, limit_bytes)};
    }
  }
}

Result<std::string> as_text(Result<std::string> read) {
  if (read.ok()) read->erase(0, read->size() - without_byte_order_mark(*read).size());
  return read;
}

}  // namespace

std::string_view without_byte_order_mark(std::string_view text) {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  return text.starts_with(kMark) ? text.substr(kMark.size()) : text;
}

Result<std::string> read_text_file(const std::string& path, std::size_t limit_bytes) {
  return as_text(read_binary_file(path, limit_bytes));
}

Result<std::string> read_binary_file(const std::string& path, std::size_t limit_bytes) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    const Code code = errno == ENOENT || errno == ENOTDIR ? Code::kNotFound : Code::kIo;
    return Error{code, fmt::format("{} cannot be opened: {}; check the path", path, std::strerror(errno))};
  }
  struct stat found{};
  if (::fstat(file, &found) == 0 && S_ISDIR(found.st_mode)) {
    ::close(file);
    return Error{Code::kInvalid, fmt::format("{} is a folder; give a file in it", path)};
  }
  Result<std::string> text = read_all(file, path, limit_bytes);
  ::close(file);
  return text;
}

Result<std::string> read_standard_input(std::size_t limit_bytes) {
  return as_text(read_all(STDIN_FILENO, "standard input", limit_bytes));
}

Status write_text_file(const std::string& path, const std::string& text) {
  const std::string part = path + ".part";
  std::FILE* file = std::fopen(part.c_str(), "wb");
  if (file == nullptr) {
    return Error{Code::kIo,
                 fmt::format("{} cannot be written: {}; choose another folder", part, std::strerror(errno))};
  }
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const bool closed = std::fclose(file) == 0;
  if (!written || !closed || std::rename(part.c_str(), path.c_str()) != 0) {
    const int why = errno;
    std::remove(part.c_str());
    return Error{Code::kIo, fmt::format("{} cannot be written: {}; the old file, if any, is unchanged", path,
                                        std::strerror(why))};
  }
  return {};
}

}  // namespace ft
