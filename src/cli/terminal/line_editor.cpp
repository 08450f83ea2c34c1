#include "cli/terminal/line_editor.h"

#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <histedit.h>
#include <string_view>
#include <unistd.h>
#include <utility>

#include "cli/library/state_folder.h"

namespace ft::cli {
namespace {

constexpr int kHistoryLines = 1000;

}  // namespace

struct LineEditor::Edited {
  EditLine* line = nullptr;
  ::History* history = nullptr;
  std::string history_file, prompt;
  bool interrupted = false;

  static Edited& of(EditLine* line) {
    void* self = nullptr;
    el_get(line, EL_CLIENTDATA, &self);
    return *static_cast<Edited*>(self);
  }
  static char* prompt_of(EditLine* line) { return of(line).prompt.data(); }
  static unsigned char leave_line(EditLine* line, int) {
    of(line).interrupted = true;
    return CC_NEWLINE;
  }
  /// A Ctrl-D that arrived while the terminal was not in the editor's mode is a NUL byte: the kernel stores
  /// an end of input as that byte when line mode is off.
  static unsigned char end_input(EditLine* line, int) {
    const LineInfo* typed = el_line(line);
    return typed->lastchar == typed->buffer ? CC_EOF : CC_NORM;
  }

  explicit Edited(const std::string& file) : history_file(file) {
    // libedit counts columns by locale and splits characters if the locale is not UTF-8.
    const char* locale = std::setlocale(LC_CTYPE, "");
    if (locale == nullptr || std::string_view(locale) == "C") std::setlocale(LC_CTYPE, "C.UTF-8");
    line = el_init("foretoken", stdin, stdout, stderr);
    history = history_init();
    HistEvent event;
    ::history(history, &event, H_SETSIZE, kHistoryLines);
    ::history(history, &event, H_SETUNIQUE, 1);
    if (!history_file.empty()) ::history(history, &event, H_LOAD, history_file.c_str());
    el_set(line, EL_CLIENTDATA, this);
    el_set(line, EL_PROMPT, prompt_of);
    el_set(line, EL_EDITOR, "emacs");
    el_set(line, EL_HIST, ::history, history);
    // Ctrl-C is a key while a line is edited; it abandons the line.
    el_set(line, EL_SETTY, "-d", "-isig", nullptr);
    el_set(line, EL_ADDFN, "ft-leave-line", "Leave this line", leave_line);
    el_set(line, EL_BIND, "^C", "ft-leave-line", nullptr);
    el_set(line, EL_ADDFN, "ft-end-input", "End the input if the line is empty", end_input);
    el_set(line, EL_BIND, "^@", "ft-end-input", nullptr);
    el_set(line, EL_BIND, "^R", "em-inc-search-prev", nullptr);
  }
  ~Edited() {
    history_end(history);
    el_end(line);
  }
  Edited(const Edited&) = delete;
  Edited& operator=(const Edited&) = delete;

  void remember(const std::string& text) {
    HistEvent event;
    ::history(history, &event, H_ENTER, text.c_str());
    if (history_file.empty()) return;
    std::error_code ignored;
    std::filesystem::create_directories(std::filesystem::path(history_file).parent_path(), ignored);
    ::history(history, &event, H_SAVE, history_file.c_str());
  }
};

LineEditor::LineEditor(const std::string& history_file, bool interactive)
    : edited_(interactive ? std::make_unique<Edited>(history_file) : nullptr) {}

LineEditor::~LineEditor() = default;

std::optional<std::string> LineEditor::read_plain() {
  for (;;) {
    if (const std::size_t newline = buffer_.find('\n'); newline != std::string::npos) {
      std::string line = buffer_.substr(0, newline);
      buffer_.erase(0, newline + 1);
      if (!line.empty() && line.back() == '\r') line.pop_back();
      return line;
    }
    if (at_end_) {
      if (buffer_.empty()) return std::nullopt;
      return std::exchange(buffer_, {});
    }
    char bytes[4096];
    const ssize_t got = ::read(STDIN_FILENO, bytes, sizeof bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      at_end_ = true;
    } else {
      buffer_.append(bytes, static_cast<std::size_t>(got));
    }
  }
}

std::optional<std::string> LineEditor::read_one(const std::string& prompt) {
  if (!edited_) return read_plain();
  edited_->prompt = prompt;
  edited_->interrupted = false;
  int length = 0;
  const char* text = el_gets(edited_->line, &length);
  if (edited_->interrupted) {
    std::fputs("^C\n", stdout);
    std::fflush(stdout);
    return "";
  }
  if (text == nullptr || length <= 0) return std::nullopt;
  std::string line(text, static_cast<std::size_t>(length));
  if (!line.empty() && line.back() == '\n') line.pop_back();
  return line;
}

std::optional<std::string> LineEditor::read(const std::string& prompt) {
  std::string whole;
  for (bool more = false;; more = true) {
    const std::optional<std::string> line = read_one(more ? "... " : prompt);
    if (!line) return more ? std::optional<std::string>(whole) : std::nullopt;
    if (edited_ && edited_->interrupted) return "";
    whole += *line;
    if (whole.empty() || whole.back() != '\\') break;
    whole.back() = '\n';
  }
  if (edited_ && !whole.empty()) edited_->remember(whole);
  return whole;
}

std::string history_path() {
  const std::string folder = state_folder();
  return folder.empty() ? folder : folder + "/history";
}

}  // namespace ft::cli
