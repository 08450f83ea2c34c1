// Feeds arbitrary answers to ListedCallsParser (text/tool_parser_fuzz.h).
#include "text/chat_format/listed_calls_parser.h"
#include "text/tool_parser_fuzz.h"

namespace {

constexpr std::string_view kBegins[] = {"[TOOL_CALLS]", "<tool_call>"};

/// With the marks of both formats.
struct Parser : ft::ToolParser {
  explicit Parser(ft::ToolSchemas schemas) : parser(std::move(schemas), {kBegins, "[ARGS]", "[CALL_ID]"}) {}
  void push(std::string_view text, std::vector<ft::AnswerEvent>& out) override { parser.push(text, out); }
  void finish(bool cut, std::vector<ft::AnswerEvent>& out) override { parser.finish(cut, out); }
  size_t calls() const override { return parser.calls(); }
  ft::ListedCallsParser parser;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ft::fuzz_tool_parser<Parser>(data, size);
  return 0;
}
