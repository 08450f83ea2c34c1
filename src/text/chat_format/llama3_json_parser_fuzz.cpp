// Feeds arbitrary answers to Llama3JsonParser (text/tool_parser_fuzz.h).
#include "text/chat_format/llama3_json_parser.h"
#include "text/tool_parser_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ft::fuzz_tool_parser<ft::Llama3JsonParser>(data, size);
  return 0;
}
