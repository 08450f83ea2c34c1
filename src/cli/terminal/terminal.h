// Writes to stdout (the answer) and stderr (everything about it). Colours and progress appear only on a
// terminal; NO_COLOR and TERM=dumb turn them off. If the reader goes away, writing stops and gone() is true.
// stdout is written when flushed; status() keeps the first failed write. Progress draws from the thread that
// does the work.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace ft::cli {

enum class Style { kPlain, kBold, kDim, kGood, kBad, kAccent };

class Terminal {
 public:
  Terminal(int out, int err);

  bool out_is_terminal() const { return out_tty_; }
  bool err_is_terminal() const { return err_tty_; }
  int columns() const;

  void out(std::string_view text) { buffer_.append(text); }
  void out(Style style, std::string_view text) { buffer_.append(styled(style, text, out_colour_)); }
  /// The lines written until the next flush() break between words on a terminal: for reports, not for JSON.
  void wraps() { wraps_ = true; }
  void flush();
  void err(std::string_view text);
  void err(Style style, std::string_view text) { err(styled(style, text, err_colour_)); }
  /// Lines on stderr, without control characters; on a terminal they break between words.
  void sentence(std::string_view text, Style style = Style::kPlain);
  void quiet(bool on) { quiet_ = on; }
  /// A line about the work on stderr, unless quiet.
  void note(std::string_view line);

  /// True if the reader of stdout has closed it.
  bool gone() const { return gone_; }
  const Status& status() const { return status_; }

 private:
  friend class Progress;
  static std::string styled(Style style, std::string_view text, bool colour);

  int out_, err_;
  bool out_tty_, err_tty_, out_colour_, err_colour_;
  bool quiet_ = false, gone_ = false, wraps_ = false;
  std::string buffer_;
  Status status_;
};

/// A progress bar on stderr for work that takes longer than a second; silent without a terminal.
class Progress {
 public:
  Progress(Terminal& terminal, std::string title, std::int64_t total);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void set(std::int64_t done, std::string_view detail = {});

 private:
  using Clock = std::chrono::steady_clock;
  Terminal& terminal_;
  std::string title_;
  std::int64_t total_;
  Clock::time_point start_, drawn_;
  bool visible_ = false;
};

}  // namespace ft::cli
