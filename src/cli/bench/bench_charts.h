// The charts of a comparison of drafters as SVG shapes, kChartWidth wide. A drafter has one colour in all
// of them: the class "d" and its number in the table (bench_page.cpp has the style).
#pragma once

#include <string>
#include <string_view>

#include "cli/bench/bench_page.h"

namespace ft::cli {

inline constexpr int kChartWidth = 720;

struct Chart {
  std::string title;  // empty: there is nothing to draw
  std::string note;   // how to read it
  std::string shapes;
  int height = 0;
};

std::string text_at(double x, double y, std::string_view text, std::string_view css = "");
/// "d1"; "other" for a name that is not in the table.
std::string colour_of(const DrafterTable& table, std::string_view drafter);
/// Names in their colours, side by side.
std::string legend(const DrafterTable& table, int y);

Chart speed_chart(const DrafterTable& table);
Chart acceptance_chart(const DrafterTable& table);
Chart cost_chart(const std::vector<RoundCosts>& costs);
/// The answer as text on the colours of its drafters, in lines of a fixed width.
Chart answer_chart(const DrafterTable& table);

}  // namespace ft::cli
