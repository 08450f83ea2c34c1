// Feeds arbitrary schemas, expressions, grammars, and parameters of tools to the compiler. A refusal has a
// sentence. A compiled grammar allows some token until it ends, its jump-forward tokens are allowed, and a
// rollback restores the earlier mask.
#include <cstdlib>
#include <string>

#include "text/chat_format/gemma4.h"
#include "text/chat_format/hermes.h"
#include "text/chat_format/qwen3_5.h"
#include "text/grammar.h"

namespace {

using Words = std::vector<uint32_t>;

bool allows(const Words& words, int32_t id) {
  return ((words[static_cast<size_t>(id) / 32] >> (id % 32)) & 1U) != 0;
}

void walk(const ft::Grammar& grammar, uint32_t choice) {
  auto matcher = grammar.start();
  if (!matcher.ok()) std::abort();
  Words words(8192 / 32), again(8192 / 32);
  for (int step = 0; step < 12 && !matcher->stopped(); ++step) {
    if (!matcher->mask(words).ok()) return;  // a limit of one step
    const auto forced = matcher->forced();
    int32_t token = forced.ok() && !forced->empty() ? forced->front() : -1;
    if (token >= 0 && !allows(words, token)) std::abort();
    for (int32_t i = 0; i < 8192 && token < 0; ++i) {
      const auto id = static_cast<int32_t>((choice + static_cast<uint32_t>(i)) % 8192);
      if (allows(words, id)) token = id;
    }
    if (token < 0) std::abort();
    if (token == 8180 || token == 8178) return;  // ends the answer
    if (!matcher->consume({&token, 1}).ok()) return;
    if (step % 3 == 2) {
      if (!matcher->rollback(1).ok() || !matcher->mask(again).ok() || again != words) std::abort();
      if (!matcher->consume({&token, 1}).ok()) std::abort();
    }
    choice = choice * 2654435761U + 12345;
  }
}

/// A tool whose parameters are `schema`, in a format that its first byte chooses.
ft::GrammarCompiler::Compiled tool_grammar(const ft::GrammarCompiler& compiler, std::string_view source) {
  constexpr const ft::ChatFormat* kFormats[] = {&ft::kQwen35Format, &ft::kHermesFormat, &ft::kGemma4Format};
  const auto choice = static_cast<unsigned char>(source[0]);
  ft::ToolCallRules rules;
  rules.tools_json = R"([{"type":"function","function":{"name":"f","strict":)" +
                     std::string(choice % 2 == 0 ? "true" : "false") + R"(,"parameters":)" +
                     std::string(source.substr(1)) + "}}]";
  rules.format = kFormats[choice / 2 % std::size(kFormats)];
  rules.required = choice / 8 % 2 == 0, rules.parallel = choice / 16 % 2 == 0;
  rules.on_sight = choice / 32 % 2 == 0;
  return compiler.tool_calls(rules);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto tokenizer =
      ft::Tokenizer::load("assets/qwen3.5-tiny");  // from the root of the repository
  if (!tokenizer.ok()) std::abort();
  static const ft::GrammarCompiler compiler(*tokenizer, {8180, 8178});
  if (size < 2) return 0;
  const std::string_view source(reinterpret_cast<const char*>(data) + 1, size - 1);
  const int kind = data[0] % 5;
  const auto grammar = kind == 0   ? compiler.json_schema(source)
                       : kind == 1 ? compiler.json_schema(source, ft::SchemaRule::kLenient)
                       : kind == 2 ? compiler.regex(source)
                       : kind == 3 ? compiler.lark(source)
                                   : tool_grammar(compiler, source);
  if (grammar.ok()) {
    walk(**grammar, static_cast<uint32_t>(size) * 77U + data[size - 1]);
  } else if (grammar.error().message.empty()) {
    std::abort();
  }
  return 0;
}
