#include "base/text_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace ft {
namespace {

constexpr int kWriterMs = 10'000;  // until a named pipe must have a writer

Error unreadable(const std::string& name, int why) {
  return {Code::kIo, fmt::format("{} cannot be read: {}", name, std::strerror(why))};
}

/// A named pipe that was opened without blocking is at its end until a writer opens it. False if no writer
/// did within kWriterMs.
bool has_writer(int file) {
  pollfd ready{file, POLLIN, 0};
  int events = 0;
  do {
    events = ::poll(&ready, 1, kWriterMs);
  } while (events < 0 && errno == EINTR);
  return events > 0;
}

/// `waits`: the file is a named pipe, open without blocking.
Result<std::string> read_all(int file, const std::string& name, std::size_t limit_bytes, bool waits) {
  std::string text;
  for (;;) {
    char buffer[1 << 16];
    const ssize_t got = ::read(file, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) {  // the writer, or a person at a terminal, may be slow
      waits = false;
      pollfd ready{file, POLLIN, 0};
      (void)::poll(&ready, 1, -1);
      continue;
    }
    if (got < 0) return unreadable(name, errno);
    if (got == 0 && !std::exchange(waits, false)) return text;
    if (got == 0 && !has_writer(file)) {
      return Error{Code::kIo, fmt::format("{} is a pipe, and no program wrote to it within {} s; start its "
                                          "writer first, or give a regular file",
                                          name, kWriterMs / 1000)};
    }
    waits = false;
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
  // O_NONBLOCK: opening a named pipe would wait for a writer for ever.
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file < 0) {
    const Code code = errno == ENOENT || errno == ENOTDIR ? Code::kNotFound : Code::kIo;
    return Error{code, fmt::format("{} cannot be opened: {}; check the path", path, std::strerror(errno))};
  }
  struct stat found{};
  const bool known = ::fstat(file, &found) == 0;
  if (known && S_ISDIR(found.st_mode)) {
    ::close(file);
    return Error{Code::kInvalid, fmt::format("{} is a folder; give a file in it", path)};
  }
  Result<std::string> text = read_all(file, path, limit_bytes, known && S_ISFIFO(found.st_mode));
  ::close(file);
  return text;
}

Result<std::string> read_standard_input(std::size_t limit_bytes) {
  return as_text(read_all(STDIN_FILENO, "standard input", limit_bytes, false));
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
