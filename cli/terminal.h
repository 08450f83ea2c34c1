// Where words go: stdout for the answer, stderr for everything about it. Colours and progress only where a
// terminal reads (NO_COLOR and TERM=dumb are heeded). A reader that goes away is no failure: writing stops
// and gone() says so. Owner: main. Thread: one at a time; Progress draws from the thread that does the work.
// Cost: stdout is written when flushed. Errors: status() keeps the first failed write of stdout.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

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
  void flush();
  void err(std::string_view text);
  void err(Style style, std::string_view text) { err(styled(style, text, err_colour_)); }
  void quiet(bool on) { quiet_ = on; }
  /// A line about the work, on stderr; nothing if quiet.
  void note(std::string_view line);

  /// The reader of stdout has gone.
  bool gone() const { return gone_; }
  const Status& status() const { return status_; }

 private:
  friend class Progress;
  static std::string styled(Style style, std::string_view text, bool colour);

  int out_, err_;
  bool out_tty_, err_tty_, out_colour_, err_colour_;
  bool quiet_ = false, gone_ = false;
  std::string buffer_;
  Status status_;
};

/// A bar on stderr for work over a second; nothing when no terminal reads.
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

/// "1.5 GB"; decimal units.
std::string bytes_text(double bytes);
/// Columns padded to their widest cell; the first row is the heading.
std::string table_text(const std::vector<std::vector<std::string>>& rows);

}  // namespace ft::cli
