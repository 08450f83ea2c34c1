// Feeds arbitrary answers to Glm4MoeParser (text/tool_parser_fuzz.h).
#include "text/chat_format/glm4_moe_parser.h"
#include "text/tool_parser_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ft::fuzz_tool_parser<ft::Glm4MoeParser>(data, size);
  return 0;
}
