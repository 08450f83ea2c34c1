#include "cli/terminal/menu.h"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <sys/select.h>
#include <termios.h>
#include <unistd.h>

#include "base/system.h"
#include "base/text_layout.h"
#include "base/utf8.h"

namespace ft::cli {
namespace {

constexpr int kMinMenuColumns = 20;
constexpr char kEarlyEnd = 0;  // a Ctrl-D typed before the terminal was in this mode
constexpr char kControlC = 3, kControlD = 4, kEscape = 27, kBackspace = 8, kDelete = 127;

/// While it lives, keys arrive one by one and are not echoed.
class RawInput {
 public:
  RawInput() {
    good_ = ::tcgetattr(STDIN_FILENO, &before_) == 0;
    termios raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ISIG);
    raw.c_cc[VMIN] = 1, raw.c_cc[VTIME] = 0;
    if (good_) good_ = ::tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) == 0;
  }
  ~RawInput() {
    if (good_) ::tcsetattr(STDIN_FILENO, TCSADRAIN, &before_);
  }
  RawInput(const RawInput&) = delete;
  RawInput& operator=(const RawInput&) = delete;

 private:
  termios before_{};
  bool good_ = false;
};

std::atomic<int> interrupt_end{-1};

/// While it lives, Ctrl-C ends the reading of a line, not the program. The signal writes to a pipe, so that
/// one that comes just before the line is read is not lost, whichever thread takes it.
class CaughtInterrupt {
 public:
  CaughtInterrupt() {
    if (!open_pipe(ends_)) return;
    interrupt_end = ends_[1];
    struct sigaction action{};
    action.sa_handler = [](int) {
      const int saved = errno;
      (void)!::write(interrupt_end.load(), "", 1);
      errno = saved;
    };
    sigemptyset(&action.sa_mask);  // a macro on macOS
    ::sigaction(SIGINT, &action, &before_);
  }
  ~CaughtInterrupt() {
    if (ends_[0] < 0) return;
    ::sigaction(SIGINT, &before_, nullptr);
    interrupt_end = -1;
    for (const int end : ends_) ::close(end);
  }
  CaughtInterrupt(const CaughtInterrupt&) = delete;
  CaughtInterrupt& operator=(const CaughtInterrupt&) = delete;

  /// Can be read after Ctrl-C; -1: Ctrl-C ends the program.
  int place() const { return ends_[0]; }

 private:
  int ends_[2] = {-1, -1};
  struct sigaction before_{};
};

/// One byte of input; nothing at its end, or once `interrupt` can be read.
std::optional<char> read_byte(int interrupt = -1) {
  for (;;) {
    fd_set ready;
    FD_ZERO(&ready);
    FD_SET(STDIN_FILENO, &ready);
    if (interrupt >= 0) FD_SET(interrupt, &ready);
    if (::select(std::max(STDIN_FILENO, interrupt) + 1, &ready, nullptr, nullptr, nullptr) < 0) {
      if (errno == EINTR) continue;
      return std::nullopt;
    }
    if (interrupt >= 0 && FD_ISSET(interrupt, &ready)) return std::nullopt;
    char byte = 0;
    const ssize_t got = ::read(STDIN_FILENO, &byte, 1);
    if (got == 1) return byte;
    if (got < 0 && errno == EINTR) continue;
    return std::nullopt;
  }
}

enum class Key { kUp, kDown, kEnter, kQuit, kHelp, kErase, kDigit, kOther };

/// Arrow keys are ESC [ A and ESC [ B (or ESC O A); j and k work too.
Key read_key(char& digit) {
  const std::optional<char> byte = read_byte();
  const bool ended = !byte || *byte == kControlC || *byte == kControlD || *byte == kEarlyEnd;
  if (ended || *byte == 'q') return Key::kQuit;
  if (*byte == '\r' || *byte == '\n') return Key::kEnter;
  if (*byte == '?') return Key::kHelp;
  if (*byte == 'k') return Key::kUp;
  if (*byte == 'j') return Key::kDown;
  if (*byte == kBackspace || *byte == kDelete) return Key::kErase;
  if (std::isdigit(static_cast<unsigned char>(*byte)) != 0) {
    digit = *byte;
    return Key::kDigit;
  }
  if (*byte != kEscape) return Key::kOther;
  const std::optional<char> second = read_byte();
  if (!second || (*second != '[' && *second != 'O')) return Key::kOther;
  const std::optional<char> third = read_byte();
  return third == 'A' ? Key::kUp : third == 'B' ? Key::kDown : Key::kOther;
}

constexpr const char* kKeysHint = "Enter takes it, ? explains, q leaves; another: arrows or its number";
constexpr const char* kLineHint = "Enter takes 1, ? explains, q leaves; another: its number";

std::vector<std::size_t> choices_of(const std::vector<MenuRow>& rows) {
  std::vector<std::size_t> choices;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!rows[i].heading) choices.push_back(i);
  }
  return choices;
}

/// 1 is the first choice; nothing for other text.
std::optional<std::size_t> numbered(const std::string& text, std::size_t choices) {
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool good =
      error == std::errc() && end == text.data() + text.size() && number >= 1 && number <= choices;
  return good ? std::optional(number - 1) : std::nullopt;
}

}  // namespace

Menu::Menu(Terminal& terminal) : terminal_(terminal) {
  const char* term = std::getenv("TERM");
  keys_ = term != nullptr && *term != '\0' && std::strcmp(term, "dumb") != 0;
}

bool Menu::can_ask(const Terminal& terminal) {
  return ::isatty(STDIN_FILENO) == 1 && terminal.err_is_terminal();
}

/// Cuts the text to one line of the terminal, because a longer one would wrap and spoil the next drawing. The
/// line ends after a phrase, or after a word.
std::string Menu::cut(const std::string& text) const {
  const auto room = static_cast<std::size_t>(std::max(terminal_.columns() - 1, kMinMenuColumns));
  if (text_width(text) <= room) return text;
  std::size_t width = 0, word = 0, phrase = 0;  // where the last ones that fit end
  for (std::size_t at = 0; at < text.size() && width <= room; ++at) {
    const bool ends_phrase = at > 0 && text[at] == ' ' &&
                             (text.substr(at, 2) == "  " || std::strchr(",;:", text[at - 1]) != nullptr);
    if (text[at] == ' ') word = at;
    if (ends_phrase && width >= room / 2) phrase = at;
    if (utf8_begins(text[at])) ++width;
  }
  const std::size_t end = phrase > 0 ? phrase : word;
  std::string line = text.substr(0, end);
  line.erase(line.find_last_not_of(" ,;:") + 1);
  return line.find_first_not_of("> 0123456789") == std::string::npos ? shortened(text, room) : line;
}

/// Names are in one column. The size after them stays; the other facts are cut to the width.
std::vector<std::string> Menu::shown(const std::vector<MenuRow>& rows) const {
  constexpr std::size_t kBefore = 7, kAfter = 11, kMin = 17;  // mark and number; gap and size; name
  const auto columns = static_cast<std::size_t>(std::max(terminal_.columns(), 0));
  const std::size_t room = std::max(kMin, columns - std::min(columns, kBefore + kAfter));
  std::size_t width = 0;
  for (const MenuRow& row : rows) width = std::max(width, std::min(room, text_width(row.name)));
  std::vector<std::string> lines;
  for (const MenuRow& row : rows) {
    std::string line = row.name.empty() ? "" : shortened(row.name, width);
    if (!line.empty()) line.append(width - text_width(line) + 2, ' ');
    lines.push_back(line + row.text);
  }
  return lines;
}

std::string Menu::wrapped(const std::string& text) const {
  return wrapped_text(text, static_cast<std::size_t>(std::max(terminal_.columns() - 1, kMinMenuColumns)));
}

std::size_t Menu::draw(const std::vector<MenuRow>& rows, std::size_t selected, const std::string& typed) {
  const std::vector<std::string> lines = shown(rows);
  std::string text;
  std::size_t number = 0;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    if (rows[row].heading) {
      text += "\r\x1b[K" + cut("  " + lines[row]) + "\n";
      continue;
    }
    const bool here = number == selected;
    ++number;
    const std::string line = cut(fmt::format("{} {:2}  {}", here ? ">" : " ", number, lines[row]));
    text += "\r\x1b[K" + line + "\n";
  }
  text += "\r\x1b[K" +
          cut(fmt::format("[{}]  {}", typed.empty() ? std::to_string(selected + 1) : typed, kKeysHint));
  terminal_.err(text);
  return rows.size();
}

std::optional<std::size_t> Menu::choose_by_keys(const std::string& title, const std::vector<MenuRow>& rows,
                                                const std::string& help) {
  const std::vector<std::size_t> choices = choices_of(rows);
  const RawInput raw;
  terminal_.err(cut(title) + "\n");
  std::size_t selected = 0;
  std::string typed;
  for (;;) {
    const std::size_t lines = draw(rows, selected, typed);
    char digit = 0;
    switch (read_key(digit)) {
      case Key::kUp:
        selected = (selected + choices.size() - 1) % choices.size(), typed.clear();
        break;
      case Key::kDown:
        selected = (selected + 1) % choices.size(), typed.clear();
        break;
      case Key::kDigit:
        if (const auto chosen = numbered(typed + digit, choices.size())) selected = *chosen, typed += digit;
        break;
      case Key::kErase:
        typed.clear();
        break;
      case Key::kEnter:
        terminal_.err(fmt::format("\r\x1b[K[{}]\n", selected + 1));
        return choices[selected];
      case Key::kQuit:
        terminal_.err("\r\x1b[K");
        return std::nullopt;
      case Key::kHelp:
        terminal_.err("\r\x1b[K" + wrapped(help) + "\n");
        continue;  // the list is drawn again below
      case Key::kOther:
        break;
    }
    terminal_.err(fmt::format("\r\x1b[{}A", lines));
  }
}

std::optional<std::size_t> Menu::choose_by_line(const std::string& title, const std::vector<MenuRow>& rows,
                                                const std::string& help) {
  const std::vector<std::size_t> choices = choices_of(rows);
  terminal_.err(cut(title) + "\n");
  std::size_t number = 0;
  const std::vector<std::string> lines = shown(rows);
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const std::string line =
        rows[row].heading ? "  " + lines[row] : fmt::format("  {:2}  {}", ++number, lines[row]);
    terminal_.err(cut(line) + "\n");
  }
  terminal_.err(cut(kLineHint) + "\n");
  for (;;) {
    const std::optional<std::string> typed = line("[1] > ");
    if (!typed || *typed == "q") return std::nullopt;
    if (typed->empty()) return choices.front();
    if (const auto chosen = numbered(*typed, choices.size())) return choices[*chosen];
    terminal_.err(*typed == "?" ? wrapped(help) + "\n"
                                : fmt::format("a number from 1 to {}, or q\n", choices.size()));
  }
}

std::optional<std::size_t> Menu::choose(const std::string& title, const std::vector<MenuRow>& rows,
                                        const std::string& help) {
  return keys_ ? choose_by_keys(title, rows, help) : choose_by_line(title, rows, help);
}

std::optional<bool> Menu::confirm(const std::string& question, bool usual) {
  for (;;) {
    const std::optional<std::string> typed = line(fmt::format("{}  [{}] ", question, usual ? "Y/n" : "y/N"));
    if (!typed || *typed == "q") return std::nullopt;
    if (typed->empty()) return usual;
    const char first = static_cast<char>(std::tolower(static_cast<unsigned char>(typed->front())));
    if (first == 'y' || first == 'n') return first == 'y';
    terminal_.err("y or n, or q\n");
  }
}

std::optional<std::string> Menu::line(const std::string& prompt) {
  const CaughtInterrupt caught;
  terminal_.err(wrapped(prompt));
  std::string text;
  for (;;) {
    const std::optional<char> byte = read_byte(caught.place());
    if (!byte) {
      terminal_.err("\n");
      return std::nullopt;
    }
    if (*byte == '\n') return text;
    if (*byte != '\r') text += *byte;
  }
}

}  // namespace ft::cli
