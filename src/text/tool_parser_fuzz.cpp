// Feeds arbitrary answers to Qwen35Parser (text/tool_parser_fuzz.h).
#include "text/tool_parser_fuzz.h"

#include "text/chat_format/qwen3_5_parser.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ft::fuzz_tool_parser<ft::Qwen35Parser>(data, size);
  return 0;
}
