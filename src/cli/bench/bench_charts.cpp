#include "cli/bench/bench_charts.h"

#include <algorithm>
#include <fmt/format.h>

#include "base/quantile.h"
#include "base/text_layout.h"
#include "base/utf8.h"
#include "speculation/report_figures.h"

namespace ft::cli {
namespace {

constexpr int kLabel = 84, kLine = 18;
constexpr int kBeside = 176;  // room for the labels of the axes

std::string line(std::string_view css, double x1, double y1, double x2, double y2) {
  return fmt::format("<path class=\"{}\" d=\"M{:.0f} {:.1f}L{:.0f} {:.1f}\"/>", css, x1, y1, x2, y2);
}

/// Two axes with numbers: x from 1, y from 0.
struct Axes {
  double left = 44, right = kChartWidth - kBeside, top = 12, bottom = 190;
  double most_x = 1, most_y = 1;

  double x(double value) const { return left + (value - 1) / std::max(1.0, most_x - 1) * (right - left); }
  double y(double value) const { return bottom - value / most_y * (bottom - top); }
  std::string drawn(std::string_view along, int decimals) const {
    std::string shapes;
    constexpr int kSteps = 4;
    for (int i = 0; i <= kSteps; ++i) {
      const double value = most_y * i / kSteps;
      shapes += line("grid", left, y(value), right, y(value));
      shapes += text_at(left - 6, y(value) + 4, fmt::format("{:.{}f}", value, decimals), "end");
    }
    const int step = most_x > 8 ? 3 : 1;
    for (int i = 1; i <= static_cast<int>(most_x); i += step)
      shapes += text_at(x(i), bottom + 15, std::to_string(i), "middle");
    return shapes + text_at(right + 14, bottom + 15, along);
  }
};

/// The median as a bar, the slowest and the fastest answer as a line through its end.
std::string speed_bar(int y, const DrafterFigures& drafter, std::vector<double> speeds, double plain,
                      std::string_view css, double most) {
  std::ranges::sort(speeds);
  const double scale = (kChartWidth - kLabel - 120) / most;
  const double median = quantile(speeds, 0.5);
  std::string shapes = text_at(kLabel - 8, y + 13, drafter.name, "end");
  shapes += fmt::format("<rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"{:.1f}\" height=\"13\"/>", css, kLabel,
                        y + 2, median * scale);
  shapes += line("spread", kLabel + speeds.front() * scale, y + 8.5, kLabel + speeds.back() * scale, y + 8.5);
  const std::string ratio = plain > 0 ? fmt::format(" ({:.2f} x)", median / plain) : "";
  return shapes + text_at(kLabel + speeds.back() * scale + 6, y + 13, fmt::format("{:.0f}{}", median, ratio));
}

double median_of(const PromptSpeeds& prompt) {
  std::vector<double> sorted = prompt.tokens_per_second;
  std::ranges::sort(sorted);
  return sorted.empty() ? 0 : quantile(sorted, 0.5);
}

}  // namespace

std::string text_at(double x, double y, std::string_view text, std::string_view css) {
  const std::string kind = css.empty() ? "" : fmt::format(" class=\"{}\"", css);
  return fmt::format("<text{} x=\"{:.0f}\" y=\"{:.0f}\">{}</text>", kind, x, y, escaped(text));
}

std::string colour_of(const DrafterTable& table, std::string_view drafter) {
  const auto found = std::ranges::find(table.drafters, drafter, &DrafterFigures::name);
  if (found == table.drafters.end()) return "other";
  return fmt::format("d{}", found - table.drafters.begin());
}

std::string legend(const DrafterTable& table, int y) {
  std::string shapes;
  double x = 44;
  for (const DrafterFigures& drafter : table.drafters) {
    shapes += fmt::format("<rect class=\"{}\" x=\"{:.0f}\" y=\"{}\" width=\"12\" height=\"12\"/>",
                          colour_of(table, drafter.name), x, y);
    shapes += text_at(x + 17, y + 10, drafter.name);
    x += 40 + 7.5 * static_cast<double>(drafter.name.size());
  }
  return shapes;
}

Chart speed_chart(const DrafterTable& table) {
  if (table.drafters.empty()) return {};
  Chart chart{"Tokens per second by drafter and prompt",
              "A bar is the median of its answers, its line goes from the slowest to the fastest.", "", 0};
  double most = 1;
  for (const DrafterFigures& drafter : table.drafters) {
    for (const PromptSpeeds& prompt : drafter.prompts)
      for (const double speed : prompt.tokens_per_second) most = std::max(most, speed);
  }
  const std::vector<PromptSpeeds>& plain = table.drafters.front().prompts;
  for (std::size_t prompt = 0; prompt < plain.size(); ++prompt) {
    chart.shapes += text_at(0, chart.height + 14, plain[prompt].name, "strong");
    chart.height += kLine + 2;
    const double of_plain = median_of(plain[prompt]);
    for (const DrafterFigures& drafter : table.drafters) {
      if (prompt >= drafter.prompts.size()) continue;
      chart.shapes +=
          speed_bar(chart.height, drafter, drafter.prompts[prompt].tokens_per_second,
                    &drafter == &table.drafters.front() ? 0 : of_plain, colour_of(table, drafter.name), most);
      chart.height += kLine;
    }
    chart.height += 6;
  }
  return chart;
}

Chart acceptance_chart(const DrafterTable& table) {
  Axes axes;
  for (const DrafterFigures& drafter : table.drafters) {
    const auto positions = static_cast<double>(acceptance_by_position(drafter.speculation).size());
    axes.most_x = std::max(axes.most_x, positions);
  }
  std::string lines;
  for (const DrafterFigures& drafter : table.drafters) {
    const auto shares = acceptance_by_position(drafter.speculation);
    const std::string css = colour_of(table, drafter.name);
    std::string points;
    double at = 0;
    for (const double share : shares) {
      points += fmt::format("{:.1f},{:.1f} ", axes.x(++at), axes.y(share));
      lines += fmt::format(
          "<circle class=\"{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\"><title>{} {}: {:.2f}</title>"
          "</circle>",
          css, axes.x(at), axes.y(share), escaped(drafter.name), at, share);
    }
    if (!shares.empty()) lines += fmt::format("<polyline class=\"{}\" points=\"{}\"/>", css, points);
  }
  if (lines.empty()) return {};
  const auto bottom = static_cast<int>(axes.bottom) + 28;
  return {"Share of drafts accepted by position",
          "Share of verified drafts that the model accepted, by position in the draft.",
          axes.drawn("position", 2) + lines + legend(table, bottom), bottom + 18};
}

Chart cost_chart(const std::vector<RoundCosts>& costs) {
  Axes axes;
  axes.most_y = 0;
  for (const RoundCosts& at : costs) {
    axes.most_y = std::max(axes.most_y, at.limit_ms);
    for (const RoundCosts::Point& point : at.points) {
      axes.most_x = std::max(axes.most_x, static_cast<double>(point.rows));
      axes.most_y = std::max(axes.most_y, point.ms);
    }
  }
  if (axes.most_y <= 0) return {};
  std::string shapes = axes.drawn("rows", axes.most_y < 4 ? 2 : 1);
  double next_label = axes.bottom + 100;
  for (const RoundCosts& at : costs) {
    if (at.points.empty()) continue;
    std::string points;
    for (const RoundCosts::Point& point : at.points)
      points += fmt::format("{:.1f},{:.1f} ", axes.x(point.rows), axes.y(point.ms));
    shapes += fmt::format("<polyline class=\"cost\" points=\"{}\"/>", points);
    shapes += line("limit", axes.left, axes.y(at.limit_ms), axes.right, axes.y(at.limit_ms));
    next_label = std::min(axes.y(at.points.back().ms) + 4, next_label - 30);  // labels do not overlap
    shapes += text_at(axes.right + 8, next_label,
                      fmt::format("{} tokens: {:.2f} ms", at.context, at.points.back().ms));
    shapes += text_at(axes.right + 8, next_label + 13, fmt::format("limit {:.2f} ms", at.limit_ms), "soft");
  }
  return {
      "Milliseconds of a round by its rows and the context",
      "Rows are the pending token and its drafts. Dashed: the bytes of one row at the measured bandwidth.",
      std::move(shapes), static_cast<int>(axes.bottom) + 24};
}

namespace {

/// Places words of a fixed width, line by line.
class Typesetter {
 public:
  static constexpr double kLetter = 6.6;
  static constexpr int kRow = 17, kColumns = 108;

  void put(std::string_view piece, std::string_view css) {
    while (!piece.empty()) {
      const std::size_t end = std::min(piece.find('\n'), piece.size());
      part(piece.substr(0, end), css);
      if (end == piece.size()) return;
      column_ = 0, ++row_;
      piece.remove_prefix(end + 1);
    }
  }
  int height() const { return (row_ + 1) * kRow + 6; }
  std::string shapes;

 private:
  static int letters(std::string_view text) { return static_cast<int>(utf8_count(text)); }
  void part(std::string_view text, std::string_view css) {
    const int count = letters(text);
    if (count == 0) return;
    if (column_ + count > kColumns) column_ = 0, ++row_;
    const double x = column_ * kLetter, y = row_ * kRow;
    if (!css.empty()) {
      shapes += fmt::format("<rect class=\"{} tint\" x=\"{:.1f}\" y=\"{}\" width=\"{:.1f}\" height=\"15\"/>",
                            css, x + 0.5, y, count * kLetter - 1);
    }
    shapes += fmt::format("<text class=\"code\" x=\"{:.1f}\" y=\"{}\" textLength=\"{:.1f}\">{}</text>", x,
                          y + 12, count * kLetter, escaped(text));
    column_ += count;
  }
  int row_ = 0, column_ = 0;
};

}  // namespace

Chart answer_chart(const DrafterTable& table) {
  if (table.answer.empty()) return {};
  Typesetter text;
  for (const AnswerPiece& piece : table.answer)
    text.put(piece.text, piece.drafted_by.empty() ? "" : colour_of(table, piece.drafted_by));
  return {"One answer, coloured by drafter",
          "Tokens without colour were not drafted, or their draft was rejected.",
          text.shapes + legend(table, text.height() + 4), text.height() + 24};
}

}  // namespace ft::cli
