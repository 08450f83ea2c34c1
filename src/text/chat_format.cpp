#include "text/chat_format.h"

#include "text/chat_format/gemma4.h"
#include "text/chat_format/hermes.h"
#include "text/chat_format/qwen3_5.h"

namespace ft {

constinit const ChatFormat kPlainFormat = {"plain", {}, {}, {}};

const ChatFormat& choose_chat_format(std::string_view family, std::string_view template_source) {
  if (family == "gemma4") return kGemma4Format;
  if (family != "qwen3_5") return kPlainFormat;
  if (is_qwen3_5_template(template_source)) return kQwen35Format;
  if (is_hermes_template(template_source)) return kHermesFormat;
  return kQwen35FormatWithoutGrammar;
}

}  // namespace ft
