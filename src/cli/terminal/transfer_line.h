// The one live line of a download, for any width of terminal.
#pragma once

#include <cstdint>
#include <string>

namespace ft::cli {

struct TransferFigures {
  std::string name;
  std::int64_t bytes = 0, total = 0;
  double bytes_per_s = 0;
  int connections = 0;
};

/// At most `columns` - 1 characters of ASCII:
/// "Qwen3.6-27B-4bit  [##########----------]  52%  8.41 / 16.2 GB   231 MB/s   34 s left"
std::string transfer_line(const TransferFigures& figures, int columns);

/// "34 s", "5 min", "3 h 20 min".
std::string duration_text(double seconds);

}  // namespace ft::cli
