#include "server/exposition.h"

#include <fmt/format.h>

namespace ft {
namespace {

std::string escaped(std::string_view text, bool quotes) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') {
      out += "\\\\";
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '"' && quotes) {
      out += "\\\"";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

void Exposition::begin(std::string_view name, std::string_view help, std::string_view type) {
  family_ = name;
  text_ += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, escaped(help, false), name, type);
}

void Exposition::line(std::string_view suffix, double value, const Labels& labels) {
  text_ += family_;
  text_ += suffix;
  const char* before = "{";
  for (const auto& [name, label] : labels) {
    text_ += fmt::format("{}{}=\"{}\"", before, name, escaped(label, true));
    before = ",";
  }
  if (!labels.empty()) text_ += '}';
  text_ += fmt::format(" {}\n", value);
}

void Exposition::histogram(std::string_view name, std::string_view help, std::span<const double> bounds,
                           std::span<const std::int64_t> counts, double sum) {
  begin(name, help, "histogram");
  std::int64_t below = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    below += counts[i];
    line("_bucket", static_cast<double>(below),
         {{"le", i < bounds.size() ? fmt::format("{}", bounds[i]) : "+Inf"}});
  }
  line("_sum", sum, {});
  line("_count", static_cast<double>(below), {});
}

}  // namespace ft
