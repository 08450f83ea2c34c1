#include "cli/terminal/transfer_line.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "base/text_layout.h"
#include "cli/terminal/terminal.h"

namespace ft::cli {
namespace {

constexpr int kMiddle = 48;  // columns
constexpr std::size_t kLongestName = 28;
constexpr int kLongestBar = 20, kShortestBar = 6;
constexpr int kFigures =
    54;  // columns of everything but name and bar: "  [] 100%  8.41 GB / 16.2 GB  231 MB/s  34 s left"

}  // namespace

std::string duration_text(double seconds) {
  constexpr double kMinute = 60, kHour = 3600;
  if (seconds < 100) return fmt::format("{:.0f} s", std::ceil(seconds));
  if (seconds < 2 * kHour) return fmt::format("{:.0f} min", std::ceil(seconds / kMinute));
  const auto minutes = static_cast<std::int64_t>(seconds / kMinute);
  return fmt::format("{} h {} min", minutes / 60, minutes % 60);
}

std::string transfer_line(const TransferFigures& figures, int columns) {
  const double share =
      figures.total > 0
          ? std::clamp(static_cast<double>(figures.bytes) / static_cast<double>(figures.total), 0.0, 1.0)
          : 1;
  std::string left;
  if (figures.bytes_per_s > 0)
    left = duration_text(static_cast<double>(figures.total - figures.bytes) / figures.bytes_per_s) + " left";
  const std::string done = fmt::format("{} / {}", bytes_text(static_cast<double>(figures.bytes)),
                                       bytes_text(static_cast<double>(figures.total)));
  const std::string speed = bytes_text(figures.bytes_per_s) + "/s";
  const int percent = static_cast<int>(share * 100);
  const std::string name = figures.name.substr(0, kLongestName);
  // The name and a bar if they fit with the longest figures, so that the bar keeps its length.
  const int bar = std::min(kLongestBar, columns - kFigures - static_cast<int>(name.size()));
  std::string line = fmt::format("{:3}%  {}  {}  {}", percent, done, speed, left);
  if (bar >= kShortestBar) {
    const int filled = static_cast<int>(share * bar);
    line = fmt::format("{}  [{}{}] {}", name, std::string(static_cast<std::size_t>(filled), '#'),
                       std::string(static_cast<std::size_t>(bar - filled), '-'), line);
  } else if (columns < kMiddle) {
    line = fmt::format("{:3}%  {}  {}", percent, speed, left);
  }
  const auto room = static_cast<std::size_t>(std::max(columns - 1, 8));
  if (line.size() > room) line.resize(room);
  while (line.ends_with(' ')) line.pop_back();
  return line;
}

}  // namespace ft::cli
