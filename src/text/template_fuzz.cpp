// Feeds arbitrary templates with a fixed conversation: an error or a text within the limits, never a crash.
#include <cstdlib>

#include "text/chat_template.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ft::TemplateLimits limits;
  limits.fuel = 20'000;
  limits.recursion_depth = 30;
  limits.output_bytes = size_t{1} << 20;
  const std::string_view source(reinterpret_cast<const char*>(data), size);
  const auto chat = ft::ChatTemplate::from_source(source, R"({"bos_token":"<s>"})", limits);
  if (chat.ok()) {
    const auto text =
        chat->render(R"([{"role":"user","content":"hi","n":1.5,"l":[1,"a",null]}])", R"([{"a":{"b":true}}])");
    if (text.ok() && text->size() > limits.output_bytes) {
      std::abort();
    }
  }
  return 0;
}
