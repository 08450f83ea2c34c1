// Feeds arbitrary answers: the joined events are the same for every split, and the arguments of every call
// are JSON.
#include <cstdlib>

#include "base/utf8.h"
#include "text/chat_format/gemma4_parser.h"
#include "text/json_text.h"

namespace {

const char kTools[] = R"([{"function":{"name":"f","parameters":{"properties":{"s":{"type":"string"},
  "i":{"type":"integer"},"n":{"type":"number"},"b":{"type":"boolean"},
  "o":{"type":"object"},"a":{"type":"array"},
  "u":{"type":["null","integer","string"]}}}}}])";

/// `cut`: the last call may stay open, but what ended is one JSON object.
std::string joined(const std::string& text, size_t most, bool cut) {
  static const auto schemas = ft::ToolSchemas::parse(kTools);
  ft::Gemma4Parser parser(*schemas);
  std::vector<ft::ToolEvent> events;
  for (size_t from = 0; from < text.size(); from += most) {
    parser.push(std::string_view(text).substr(from, most), events);
  }
  parser.finish(cut, events);
  std::string all;
  std::string arguments;
  for (const ft::ToolEvent& event : events) {
    all += static_cast<char>('0' + static_cast<int>(event.kind)) + event.text;
    if (event.kind == ft::ToolEvent::Kind::kArguments) {
      arguments += event.text;
    } else if (event.kind == ft::ToolEvent::Kind::kEnd) {
      if (!ft::is_json(arguments, 200)) {
        std::abort();
      }
      arguments.clear();
    }
  }
  return all;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text = ft::utf8_replace_invalid({reinterpret_cast<const char*>(data), size});
  for (const bool cut : {false, true}) {
    const std::string whole = joined(text, text.size() + 1, cut);
    if (joined(text, 1, cut) != whole || joined(text, 5, cut) != whole) {
      std::abort();
    }
  }
  return 0;
}
