#include "base/text_layout.h"

#include <algorithm>
#include <fmt/format.h>

#include "base/utf8.h"

namespace ft {
namespace {

constexpr std::size_t kGap = 2;       // between columns of a table
constexpr std::size_t kMinName = 12;  // columns of a name that is shortened
constexpr std::string_view kCutOff = "...";

std::vector<std::size_t> widths_of(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], text_width(row[i]));
  }
  return widths;
}

std::size_t table_width(const std::vector<std::vector<std::string>>& rows) {
  const std::vector<std::size_t> widths = widths_of(rows);
  std::size_t width = widths.empty() ? 0 : kGap * (widths.size() - 1);
  for (const std::size_t each : widths) width += each;
  return width;
}

/// Where the description of a line begins: after its first two spaces between words, else at its first word.
std::size_t description_of(std::string_view line) {
  const std::size_t word = std::min(line.find_first_not_of(' '), line.size());
  const std::size_t gap = line.find("  ", word);
  return gap == std::string_view::npos ? word : std::min(line.find_first_not_of(' ', gap), line.size());
}

void add_wrapped(std::string_view line, std::size_t columns, std::string& text) {
  if (text_width(line) <= columns) {
    text += line;
    return;
  }
  const std::size_t description = description_of(line);
  // In the last columns there would be one word per line.
  const std::size_t indent = std::min(text_width(line.substr(0, description)), columns / 2);
  text += line.substr(0, description);
  std::size_t used = text_width(line.substr(0, description));
  line.remove_prefix(description);
  bool begun = false;  // a word is on this line
  while (!line.empty()) {
    const std::size_t end = std::min(line.find(' '), line.size());
    const std::string_view word = line.substr(0, end);
    if (used + (begun ? 1 : 0) + text_width(word) > columns && used > indent) {
      text.erase(text.find_last_not_of(' ') + 1);
      text.append("\n").append(indent, ' ');
      used = indent, begun = false;
    }
    if (begun) text += ' ', ++used;
    text += word, used += text_width(word), begun = true;
    line.remove_prefix(std::min(line.find_first_not_of(' ', end), line.size()));
  }
}

}  // namespace

std::size_t text_width(std::string_view text) {
  std::size_t width = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text.substr(at).starts_with("\x1b[")) {
      at = std::min(text.find('m', at), text.size());
    } else if (utf8_begins(text[at])) {
      ++width;
    }
  }
  return width;
}

std::string wrapped_text(std::string_view text, std::size_t columns) {
  std::string made;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    add_wrapped(text.substr(0, end), columns, made);
    if (end < text.size()) made += '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return made;
}

std::string shortened(const std::string& text, std::size_t columns) {
  const std::size_t width = text_width(text);
  if (width <= columns) return text;
  constexpr std::size_t kTailShare = 8;
  const std::size_t left = columns - std::min(columns, kCutOff.size()), tail = left / kTailShare;
  const auto byte_of = [&](std::size_t character) {
    std::size_t at = 0;
    for (std::size_t seen = 0; at < text.size(); ++at) {
      if (utf8_begins(text[at]) && seen++ == character) break;
    }
    return at;
  };
  return text.substr(0, byte_of(left - tail)) + std::string(kCutOff) + text.substr(byte_of(width - tail));
}

std::string table_text(const std::vector<std::vector<std::string>>& rows) {
  const std::vector<std::size_t> widths = widths_of(rows);
  std::string text;
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      text += row[i];
      if (i + 1 < row.size()) text.append(widths[i] - text_width(row[i]) + kGap, ' ');
    }
    text += "\n";
  }
  return text;
}

std::string fitted_table(std::vector<std::vector<std::string>> rows, std::vector<std::size_t> spare,
                         std::size_t columns) {
  while (!spare.empty() && table_width(rows) > columns) {
    const std::size_t left_out = spare.front();
    spare.erase(spare.begin());
    for (auto& row : rows) row.erase(row.begin() + static_cast<std::ptrdiff_t>(left_out));
    for (std::size_t& each : spare) each -= each > left_out ? 1 : 0;
  }
  if (const std::size_t width = table_width(rows); width > columns && !rows.empty()) {
    const std::size_t name = widths_of(rows).front(), over = width - columns;
    for (auto& row : rows)
      row.front() = shortened(row.front(), std::max(kMinName, name - std::min(name, over)));
  }
  return table_text(rows);
}

std::string bytes_text(double bytes) {
  const char* const units[] = {"bytes", "kB", "MB", "GB", "TB"};
  int unit = 0;
  while (bytes >= 1000 && unit < 4) bytes /= 1000, ++unit;
  return unit == 0 ? fmt::format("{:.0f} bytes", bytes) : fmt::format("{:.3g} {}", bytes, units[unit]);
}

std::string escaped(std::string_view text) {
  std::string safe;
  for (const char letter : text) {
    const auto code = static_cast<unsigned char>(letter);
    if (letter == '&') {
      safe += "&amp;";
    } else if (letter == '<') {
      safe += "&lt;";
    } else if (letter == '>') {
      safe += "&gt;";
    } else if (letter == '"') {
      safe += "&quot;";
    } else if (code >= ' ' || letter == '\n' || letter == '\t') {  // XML has no other control characters
      safe += letter;
    }
  }
  return safe;
}

}  // namespace ft
