// Fuzzes the JSON that the command line reads: conversations and tools.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "cli/commands/conversation.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (const auto messages = ft::cli::checked_messages(text, "fuzz"); messages.ok()) {
    // Accepted input is accepted again, unchanged.
    const auto again = ft::cli::checked_messages(*messages, "fuzz");
    if (!again.ok() || *again != *messages) std::abort();
  }
  if (const auto tools = ft::cli::checked_tools(text, "fuzz"); tools.ok()) {
    const auto again = ft::cli::checked_tools(*tools, "fuzz");
    if (!again.ok() || *again != *tools) std::abort();
  }
  if (const auto plain = ft::cli::plain_messages(text, "fuzz"); plain.ok()) {
    if (!ft::cli::plain_messages(ft::cli::messages_json(*plain), "fuzz").ok()) std::abort();
  }
  return 0;
}
