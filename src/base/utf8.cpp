#include "base/utf8.h"

#include <algorithm>
#include <cstdint>

namespace ft {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

struct Step {
  std::size_t length;  // bytes examined: the whole character, or the maximal ill-formed part (>= 1)
  enum class Kind { kCharacter, kInvalid, kUnfinished } kind;
};

// The second byte's range carries all the special cases: overlong forms, surrogates, the upper limit.
struct Lead {
  int following;  // continuation bytes; -1: not a lead byte
  std::uint8_t second_low;
  std::uint8_t second_high;
};

Lead classify(std::uint8_t byte) {
  if (byte < 0x80) return {0, 0, 0};
  if (byte < 0xC2) return {-1, 0, 0};
  if (byte < 0xE0) return {1, 0x80, 0xBF};
  if (byte == 0xE0) return {2, 0xA0, 0xBF};
  if (byte == 0xED) return {2, 0x80, 0x9F};
  if (byte < 0xF0) return {2, 0x80, 0xBF};
  if (byte == 0xF0) return {3, 0x90, 0xBF};
  if (byte < 0xF4) return {3, 0x80, 0xBF};
  if (byte == 0xF4) return {3, 0x80, 0x8F};
  return {-1, 0, 0};
}

Step next_step(std::string_view text) {
  const Lead lead = classify(static_cast<std::uint8_t>(text[0]));
  if (lead.following < 0) return {1, Step::Kind::kInvalid};
  for (int i = 1; i <= lead.following; ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (at == text.size()) return {at, Step::Kind::kUnfinished};
    const auto byte = static_cast<std::uint8_t>(text[at]);
    const std::uint8_t low = i == 1 ? lead.second_low : 0x80;
    const std::uint8_t high = i == 1 ? lead.second_high : 0xBF;
    if (byte < low || byte > high) return {at, Step::Kind::kInvalid};
  }
  return {static_cast<std::size_t>(lead.following) + 1, Step::Kind::kCharacter};
}

}  // namespace

std::size_t utf8_count(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, utf8_begins));
}

bool utf8_valid(std::string_view text) {
  while (!text.empty()) {
    const Step step = next_step(text);
    if (step.kind != Step::Kind::kCharacter) return false;
    text.remove_prefix(step.length);
  }
  return true;
}

std::size_t utf8_complete_prefix(std::string_view text) {
  // An unfinished character starts at most 3 bytes before the end; its lead byte is the last byte that is not
  // a continuation byte.
  for (std::size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    const std::size_t at = text.size() - back;
    if (!utf8_begins(text[at])) continue;
    return next_step(text.substr(at)).kind == Step::Kind::kUnfinished ? at : text.size();
  }
  return text.size();
}

std::string utf8_replace_invalid(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Step step = next_step(text);
    out += step.kind == Step::Kind::kCharacter ? text.substr(0, step.length) : kReplacement;
    text.remove_prefix(step.length);
  }
  return out;
}

}  // namespace ft
