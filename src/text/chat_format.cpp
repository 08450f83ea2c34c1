#include "text/chat_format.h"

#include <algorithm>

#include "text/chat_format/gemma4.h"
#include "text/chat_format/glm4_moe.h"
#include "text/chat_format/granite.h"
#include "text/chat_format/harmony.h"
#include "text/chat_format/hermes.h"
#include "text/chat_format/llama3_json.h"
#include "text/chat_format/mistral.h"
#include "text/chat_format/qwen3_5.h"

namespace ft {

constinit const ChatFormat kPlainFormat = {"plain", {}, {}, {}};

namespace {

struct Entry {
  const ChatFormat* format;
  bool (*matches)(std::string_view template_source);
};

bool always(std::string_view /*template_source*/) { return true; }

constexpr Entry kFormats[] = {
    {&kPlainFormat, always},
    {&kQwen35Format, is_qwen3_5_template},
    {&kQwen35FormatWithoutGrammar, always},
    {&kHermesFormat, is_hermes_template},
    {&kGemma4Format, always},
    {&kLlama3JsonFormat, is_llama3_json_template},
    {&kGlm4MoeFormat, is_glm4_moe_template},
    {&kHarmonyFormat, is_harmony_template},
    {&kMistralThinkingFormat, is_mistral_thinking_template},
    {&kMistralFormat, is_mistral_template},
    {&kMistralListFormat, is_mistral_list_template},
    {&kGraniteThinkingFormat, is_granite_thinking_template},
    {&kGraniteFormat, is_granite_template},
};

const Entry* find_entry(std::string_view name) {
  const auto* found =
      std::ranges::find(kFormats, name, [](const Entry& entry) { return entry.format->name; });
  return found == std::end(kFormats) ? nullptr : found;
}

}  // namespace

const ChatFormat* find_chat_format(std::string_view name) {
  const Entry* entry = find_entry(name);
  return entry == nullptr ? nullptr : entry->format;
}

const ChatFormat& choose_chat_format(std::span<const std::string_view> names,
                                     std::string_view template_source) {
  for (const std::string_view name : names) {
    const Entry* entry = find_entry(name);
    if (entry != nullptr && (name == names.back() || entry->matches(template_source))) return *entry->format;
  }
  return kPlainFormat;
}

}  // namespace ft
