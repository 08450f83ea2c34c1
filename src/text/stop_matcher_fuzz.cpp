// Feeds arbitrary stop strings and text: the shown text and the match are the same for every split.
#include <algorithm>
#include <cstdlib>

#include "text/stop_matcher.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string input(reinterpret_cast<const char*>(data), size);
  std::vector<std::string> stops;
  size_t from = 0;
  for (size_t i = 0; i < 3; ++i) {  // three stop strings that each end at a NUL, then the text
    const size_t end = std::min(input.find('\0', from), input.size());
    if (end > from) {
      stops.push_back(input.substr(from, end - from));
    }
    from = std::min(end + 1, input.size());
  }
  const std::string text = input.substr(from);
  auto whole = ft::StopMatcher::create(stops);
  if (!whole.ok()) {
    return 0;
  }
  auto pieces = *whole;
  const auto all = whole->push(text);
  const std::string shown = all.text + whole->flush();
  std::string shown_in_pieces;
  for (const char c : text) {
    shown_in_pieces += pieces.push(std::string_view(&c, 1)).text;
  }
  shown_in_pieces += pieces.flush();
  if (shown != shown_in_pieces || pieces.matched() != all.match.has_value()) {
    std::abort();
  }
  return 0;
}
