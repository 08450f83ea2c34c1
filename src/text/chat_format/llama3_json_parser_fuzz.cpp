// Feeds arbitrary answers: the joined events are the same for every split, and the arguments of every call
// that ends are JSON.
#include <cstdlib>

#include "base/utf8.h"
#include "text/chat_format/llama3_json_parser.h"
#include "text/json_text.h"

namespace {

/// `cut`: the last call may stay open.
std::string joined(const std::string& text, size_t most, bool cut) {
  static const auto schemas =
      ft::ToolSchemas::parse(R"([{"function":{"name":"f"}},{"function":{"name":"g"}}])");
  ft::Llama3JsonParser parser(*schemas);
  std::vector<ft::ToolEvent> events;
  for (size_t from = 0; from < text.size(); from += most)
    parser.push(std::string_view(text).substr(from, most), events);
  parser.finish(cut, events);
  std::string all, arguments;
  auto kind = ft::ToolEvent::Kind::kEnd;
  for (const ft::ToolEvent& event : events) {
    const bool joins = event.kind == kind && kind == ft::ToolEvent::Kind::kContent;
    all += (joins ? "" : std::string(1, static_cast<char>('0' + static_cast<int>(event.kind)))) + event.text;
    kind = event.kind;
    if (kind == ft::ToolEvent::Kind::kArguments) arguments += event.text;
    if (kind == ft::ToolEvent::Kind::kEnd && !ft::is_json(std::exchange(arguments, {}), 200)) std::abort();
  }
  return all;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text = ft::utf8_replace_invalid({reinterpret_cast<const char*>(data), size});
  for (const bool cut : {false, true}) {
    const std::string whole = joined(text, text.size() + 1, cut);
    if (joined(text, 1, cut) != whole || joined(text, 5, cut) != whole) std::abort();
  }
  return 0;
}
