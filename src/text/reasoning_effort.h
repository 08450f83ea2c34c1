// The reasoning efforts of the API in the words of a chat template. Templates know different ones, and some
// (Qwen3.8's) raise for every other word. Pure; any thread; linear in the template.
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace ft {

/// From least to most. "none" turns reasoning off and is not here.
inline constexpr std::array<std::string_view, 6> kEfforts{"minimal", "low", "medium", "high", "xhigh", "max"};

/// The value of the template's variable reasoning_effort for one of kEfforts: the nearest effort that the
/// template quotes; of two equally near, the greater one from high upwards and the lesser one below. A
/// template that quotes fewer than two gets low, medium or high. Empty if the template has no such variable.
std::string effort_word(std::string_view template_source, std::string_view effort);

}  // namespace ft
