// What every ToolParser keeps for arbitrary answers: the joined events are the same for every split, and the
// arguments of every call that ends are JSON.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/utf8.h"
#include "text/json_text.h"
#include "text/tool_parser.h"
#include "text/tool_schema.h"

namespace ft {

inline constexpr char kFuzzedTools[] =
    R"([{"function":{"name":"f","parameters":{"properties":{"s":{"type":"string"},
  "i":{"type":"integer"},"n":{"type":"number"},"b":{"type":"boolean"},
  "o":{"type":"object"},"a":{"type":"array"},
  "u":{"type":["null","integer","string"]}}}}}])";

/// `cut`: the last call may stay open, but what ended is one JSON object.
template <class Parser>
std::string joined_events(const std::string& text, size_t most, bool cut) {
  static const auto schemas = ToolSchemas::parse(kFuzzedTools);
  Parser parser(*schemas);
  std::vector<AnswerEvent> events;
  for (size_t from = 0; from < text.size(); from += most) {
    parser.push(std::string_view(text).substr(from, most), events);
  }
  parser.finish(cut, events);
  std::string all, arguments;
  for (const AnswerEvent& event : events) {
    all += static_cast<char>('0' + static_cast<int>(event.kind)) + event.text;
    if (event.kind == AnswerEvent::Kind::kToolArguments) arguments += event.text;
    if (event.kind != AnswerEvent::Kind::kToolEnd) continue;
    if (!is_json(arguments, 200)) std::abort();
    arguments.clear();
  }
  return all;
}

template <class Parser>
void fuzz_tool_parser(const std::uint8_t* data, size_t size) {
  const std::string text = utf8_replace_invalid({reinterpret_cast<const char*>(data), size});
  for (const bool cut : {false, true}) {
    const std::string whole = joined_events<Parser>(text, text.size() + 1, cut);
    if (joined_events<Parser>(text, 1, cut) != whole || joined_events<Parser>(text, 5, cut) != whole) {
      std::abort();
    }
  }
}

}  // namespace ft
