// Grammars: constrain an answer by masks over the vocabulary (llguidance inside). A compiler belongs to a
// model, a Grammar to a request, and a GrammarMatcher to the slot that decodes it.
//   compiler  JSON schema, any JSON object, regular expression, Lark, tool calls -> Grammar
//   Grammar   immutable: any number of requests and threads may share one
//   matcher   walks along the tokens of one answer: mask, consume, rollback, forced
// Masks depend only on the grammar and the tokens so far. Added tokens, such as tags, match no text: a
// grammar allows them by id, and allows the model's end tokens where it may end. JSON is one line with a
// space after commas and colons, and properties in the schema's order. A matcher belongs to one thread; all
// else is safe from any thread. Measured with 8,192 and 248,320 tokens
// (bench/results/2026-11-21-zen-5-2-cores.md): a model's first grammar takes 0.02 and 1.2 s, a further one 1
// to 7 ms; a mask takes 0.6 and 2 us (median), 12 and 40 us (p95), below 0.3 ms (p99).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/text_format.h"
#include "text/tokenizer.h"

struct ft_text_matcher;

namespace ft {

struct ChatFormat;

inline constexpr size_t kMaxGrammarBytes = size_t{1} << 16;  // of an expression or a Lark grammar
inline constexpr size_t kMaxSchemaBytes = size_t{1} << 17;   // of a JSON schema
inline constexpr int kMaxGrammarDepth = 64;                  // of a schema; Lark groups have a separate limit
inline constexpr size_t kMaxGrammarSymbols = 20'000;         // of a grammar after compilation
inline constexpr size_t kMaxToolsOffered = 512;              // of one tool-call grammar

/// Walks along one answer. After an error every call returns that error: start again from the Grammar.
class GrammarMatcher {
 public:
  /// Sets bit v of words[v / 32] if token v may come next, and clears all others. At the grammar's end only
  /// the end tokens are set.
  Status mask(std::span<uint32_t> words);
  /// Advances by the tokens; each must be allowed after the ones before it.
  Status consume(std::span<const int32_t> tokens);
  /// Removes the last `count` tokens.
  Status rollback(size_t count);
  /// The jump-forward tokens, which must come next; empty if there is a choice or the grammar is at its end.
  Result<std::vector<int32_t>> forced();
  /// True if the answer may end here.
  bool accepting();
  /// True if the answer must end here.
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
  /// A matcher at the start of the answer.
  Result<GrammarMatcher> start() const;
  /// True if the grammar includes message headers (ChatFormat::channels).
  bool has_headers() const { return has_headers_; }
  /// True if it begins where the answer begins a call (ToolCallRules::on_sight).
  bool on_sight() const { return on_sight_; }

 private:
  friend class GrammarCompiler;
  Grammar(ft_text_matcher* handle, bool has_headers) : start_(handle), has_headers_(has_headers) {}

  GrammarMatcher start_;
  bool has_headers_, on_sight_ = false;
};

/// kStrict: an unenforceable keyword is an error. kLenient: it is ignored.
enum class SchemaRule : uint8_t { kStrict, kLenient };

/// The parameter of a custom tool.
inline constexpr std::string_view kTextParameter = "input";

struct ToolCallRules {
  std::string tools_json;              // as RequestFields::tools
  std::vector<std::string> allowed;    // names that may be called; empty: all
  const ChatFormat* format = nullptr;  // null: no grammar can be made
  bool required = false;  // the answer is calls and nothing else; otherwise it may begin with, or be, text
  bool parallel = true;   // more than one call
  std::map<std::string, TextFormat> text_formats;  // of tools with one text parameter, kTextParameter
  // If not empty and calls are not required: the answer is calls and nothing else, or JSON of this schema.
  std::string answer_schema;
  SchemaRule answer_rule = SchemaRule::kStrict;
  // The grammar begins at a call's beginning, which CallWatch finds; what precedes it is free. A schema that
  // is broken or too large leaves its tool's arguments free; a tool of which no call can be right is not
  // called.
  bool on_sight = false;
  bool any_arguments = false;           // only the names are enforced
  std::vector<std::string> free_tools;  // on sight: those of which only the name is enforced
  uint64_t owner = 0;  // grammars of one owner are kept for its next request; others cannot notice
};

class GrammarCompiler {
 public:
  /// `tokenizer` must outlive this object; `eos` are the ids that end an answer.
  GrammarCompiler(const Tokenizer& tokenizer, std::vector<int32_t> eos);
  ~GrammarCompiler();
  GrammarCompiler(const GrammarCompiler&) = delete;
  GrammarCompiler& operator=(const GrammarCompiler&) = delete;

  using Compiled = Result<std::shared_ptr<const Grammar>>;
  Compiled json_schema(std::string_view schema, SchemaRule rule = SchemaRule::kStrict) const;
  /// Any JSON object.
  Compiled json_object() const;
  /// The whole answer must match; Rust's regex syntax without look-around and backreferences.
  Compiled regex(std::string_view expression) const;
  /// Lark in llguidance's syntax; added tokens as <[id]>.
  Compiled lark(std::string_view source) const;
  /// Calls in the model's own form; each tool's schema constrains its arguments.
  Compiled tool_calls(const ToolCallRules& rules) const;

 private:
  struct Vocabulary;
  Compiled compile(int kind, std::string_view source, size_t max_bytes, std::string_view name,
                   bool has_headers = false) const;

  struct Kept;
  Compiled calls_on_sight(const ToolCallRules& rules) const;
  Compiled compile_calls(const std::string& source, const ToolCallRules& rules) const;
  std::vector<std::string> unusable_tools(const ToolCallRules& rules) const;

  const Tokenizer& tokenizer_;
  std::vector<int32_t> eos_;
  std::unique_ptr<Vocabulary> vocabulary_;  // built on first use
  std::unique_ptr<Kept> kept_;              // of recent requests with tools
};

}  // namespace ft
