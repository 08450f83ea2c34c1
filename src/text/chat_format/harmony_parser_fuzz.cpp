// Feeds arbitrary answers to HarmonyParser (text/tool_parser_fuzz.h).
#include "text/chat_format/harmony_parser.h"
#include "text/tool_parser_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ft::fuzz_tool_parser<ft::HarmonyParser>(data, size);
  return 0;
}
