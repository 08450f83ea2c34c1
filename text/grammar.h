// Grammars: what an answer may be, as masks over the vocabulary (llguidance inside). A compiler belongs to a
// model, a Grammar to a request, a GrammarMatcher to the slot that decodes it.
//   compiler  JSON schema, any JSON object, regular expression, Lark, tool calls -> Grammar
//   Grammar   immutable: any number of requests and threads may share one
//   matcher   walks along the tokens of one answer: mask, consume, rollback, forced
// The masks are a function of the grammar and the tokens so far alone. Added tokens (as tags)
// have no text: a grammar allows them by id, and the model's end tokens where it may end.
// JSON is one line with a blank behind commas and colons, properties in the schema's order.
// Threads: compiler and Grammar any, at the same time; a matcher one. Cost, as measured with 8,192 and
// 248,320 tokens (bench/results/2026-11-21-zen-5-2-cores.md): the first grammar of a model prepares its
// vocabulary in 0.02 and 1.2 s, a further one takes 1 to 7 ms; a mask 0.6 and 2 us in the median, 12 and 40
// us at p95, less than 0.3 ms at p99. Errors: what is wrong in the schema or grammar, and every limit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/tokenizer.h"

struct ft_text_matcher;

namespace ft {

struct ChatFormat;

inline constexpr size_t kMaxGrammarBytes = size_t{1} << 16;  // of an expression or a Lark grammar
inline constexpr size_t kMaxSchemaBytes = size_t{1} << 17;   // of a JSON schema, and of all tools' together
inline constexpr int kMaxGrammarDepth = 64;           // of a schema; Lark groups have a limit of their own
inline constexpr size_t kMaxGrammarSymbols = 20'000;  // of a grammar after compilation
inline constexpr size_t kMaxToolsOffered = 128;       // of one tool-call grammar

/// Walks along one answer. After an error it answers nothing but that error: start again from the Grammar.
class GrammarMatcher {
 public:
  /// Sets bit v of words[v / 32] where token v may come next, clears all others. At the grammar's end: the
  /// end tokens.
  Status mask(std::span<uint32_t> words);
  /// The tokens must be allowed, one after the other.
  Status consume(std::span<const int32_t> tokens);
  /// Takes back the last `count` tokens.
  Status rollback(size_t count);
  /// The tokens that must come next; empty where there is a choice or the grammar is at its end.
  Result<std::vector<int32_t>> forced();
  /// The answer may end here.
  bool accepting();
  /// The answer must end here.
  bool stopped();

 private:
  friend class Grammar;
  struct Deleter {
    void operator()(ft_text_matcher* handle) const;
  };
  explicit GrammarMatcher(ft_text_matcher* handle) : handle_(handle) {}

  std::unique_ptr<ft_text_matcher, Deleter> handle_;
};

class Grammar {
 public:
  /// A matcher at the beginning.
  Result<GrammarMatcher> start() const;

 private:
  friend class GrammarCompiler;
  explicit Grammar(ft_text_matcher* handle) : start_(handle) {}

  GrammarMatcher start_;
};

/// kStrict: a keyword that cannot be enforced is an error. kLenient: it is left out.
enum class SchemaRule : uint8_t { kStrict, kLenient };

struct ToolCallRules {
  std::string tools_json;              // as RequestFields::tools
  std::vector<std::string> allowed;    // names that may be called; empty: all
  const ChatFormat* format = nullptr;  // null: no grammar can be made
  bool required = false;  // the answer is calls and nothing else; otherwise it may begin with, or be, text
  bool parallel = true;   // more than one call
  // If not empty and calls are not required: the answer is calls and nothing else, or JSON of this schema.
  std::string answer_schema;
  SchemaRule answer_rule = SchemaRule::kStrict;
};

class GrammarCompiler {
 public:
  /// `tokenizer` outlives this object; `eos` are the ids that end an answer.
  GrammarCompiler(const Tokenizer& tokenizer, std::vector<int32_t> eos);
  ~GrammarCompiler();
  GrammarCompiler(const GrammarCompiler&) = delete;
  GrammarCompiler& operator=(const GrammarCompiler&) = delete;

  using Compiled = Result<std::shared_ptr<const Grammar>>;
  Compiled json_schema(std::string_view schema, SchemaRule rule = SchemaRule::kStrict) const;
  /// Any JSON object.
  Compiled json_object() const;
  /// The whole answer matches; Rust's syntax, no look-around and no references.
  Compiled regex(std::string_view expression) const;
  /// Lark in llguidance's form; added tokens as <[id]>.
  Compiled lark(std::string_view source) const;
  /// Calls in the model's own form, their arguments by each tool's schema.
  Compiled tool_calls(const ToolCallRules& rules) const;

 private:
  struct Vocabulary;
  Compiled compile(int kind, std::string_view source, size_t max_bytes, std::string_view name) const;

  const Tokenizer& tokenizer_;
  std::vector<int32_t> eos_;
  std::unique_ptr<Vocabulary> vocabulary_;  // made when first needed
};

}  // namespace ft
