#include "cli/terminal/terminal.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <utility>

#include "base/printable.h"
#include "base/text_layout.h"

namespace ft::cli {
namespace {

constexpr auto kShowAfter = std::chrono::seconds(1);
constexpr auto kDrawEvery = std::chrono::milliseconds(100);

bool colours_wanted() {
  const char* off = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  return (off == nullptr || *off == '\0') && (term == nullptr || std::strcmp(term, "dumb") != 0);
}

int columns_of(int file) {
  winsize size{};
  constexpr int kUsual = 80;
  return ::ioctl(file, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsual;
}

constexpr char kFixedBlank = '\x01';

/// Keeps a command on one line if it fits, so that it can be copied: its blanks become kFixedBlank.
std::string with_whole_commands(std::string text, std::size_t columns) {
  constexpr std::string_view kProgram = "foretoken ";
  for (std::size_t at = 0; (at = text.find(kProgram, at)) != std::string::npos; at += kProgram.size()) {
    const std::size_t end = std::min(text.find_first_of(";,)\n", at), text.size());
    const auto first = text.begin() + static_cast<std::ptrdiff_t>(at);
    const auto last = text.begin() + static_cast<std::ptrdiff_t>(end);
    if (text_width(std::string_view(first, last)) <= columns) std::replace(first, last, ' ', kFixedBlank);
  }
  return text;
}

/// Lines that fit the width of the terminal `file`.
std::string wrapped_for(int file, std::string lines) {
  constexpr int kMinColumns = 20;
  const auto columns = static_cast<std::size_t>(std::max(columns_of(file), kMinColumns));
  lines = wrapped_text(with_whole_commands(std::move(lines), columns), columns);
  std::ranges::replace(lines, kFixedBlank, ' ');
  return lines;
}

}  // namespace

Terminal::Terminal(int out, int err)
    : out_(out),
      err_(err),
      out_tty_(::isatty(out) == 1),
      err_tty_(::isatty(err) == 1),
      out_colour_(out_tty_ && colours_wanted()),
      err_colour_(err_tty_ && colours_wanted()) {}

int Terminal::columns() const { return columns_of(out_tty_ ? out_ : err_); }

std::string Terminal::styled(Style style, std::string_view text, bool colour) {
  if (!colour || style == Style::kPlain || text.empty()) return std::string(text);
  const char* code = "";
  switch (style) {
    case Style::kPlain:
      break;
    case Style::kBold:
      code = "\x1b[1m";
      break;
    case Style::kDim:
      code = "\x1b[2m";
      break;
    case Style::kGood:
      code = "\x1b[32m";
      break;
    case Style::kBad:
      code = "\x1b[31m";
      break;
    case Style::kAccent:
      code = "\x1b[36m";
      break;
  }
  return fmt::format("{}{}\x1b[0m", code, text);
}

void Terminal::flush() {
  if (std::exchange(wraps_, false) && out_tty_) buffer_ = wrapped_for(out_, std::move(buffer_));
  std::string_view rest = buffer_;
  while (!rest.empty() && !gone_ && status_.ok()) {
    const ssize_t written = ::write(out_, rest.data(), rest.size());
    if (written > 0) {
      rest.remove_prefix(static_cast<std::size_t>(written));
    } else if (written < 0 && errno == EPIPE) {
      gone_ = true;
    } else if (written < 0 && errno != EINTR) {
      status_ = Error{Code::kIo, fmt::format("standard output cannot be written: {}", std::strerror(errno))};
    }
  }
  buffer_.clear();
}

void Terminal::err(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(err_, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;  // there is no place left to report it
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

void Terminal::sentence(std::string_view text, Style style) {
  std::string lines = printable(text);
  if (err_tty_) lines = wrapped_for(err_, std::move(lines));
  err(style, lines);
  err("\n");
}

void Terminal::note(std::string_view line) {
  if (!quiet_) sentence(line);
}

Progress::Progress(Terminal& terminal, std::string title, std::int64_t total)
    : terminal_(terminal), title_(std::move(title)), total_(total), start_(Clock::now()), drawn_(start_) {}

Progress::~Progress() {
  if (visible_) terminal_.err("\r\x1b[K");
}

void Progress::set(std::int64_t done, std::string_view detail) {
  if (!terminal_.err_is_terminal() || terminal_.quiet_) return;
  const auto now = Clock::now();
  if (now - start_ < kShowAfter || now - drawn_ < kDrawEvery) return;
  drawn_ = now;
  visible_ = true;
  constexpr int kBar = 24;
  const double share =
      total_ > 0 ? std::clamp(static_cast<double>(done) / static_cast<double>(total_), 0.0, 1.0) : 0;
  const int filled = static_cast<int>(share * kBar);
  std::string line =
      fmt::format("{} [{}{}] {:3.0f} % {}", title_, std::string(static_cast<std::size_t>(filled), '#'),
                  std::string(static_cast<std::size_t>(kBar - filled), '.'), share * 100, detail);
  const auto room = static_cast<std::size_t>(std::max(20, terminal_.columns() - 1));
  if (line.size() > room) line.resize(room);
  terminal_.err("\r\x1b[K" + line);
}

}  // namespace ft::cli
