#include "text/grammar.h"

#include <algorithm>
#include <deque>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/heavy_work.h"
#include "base/json.h"
#include "text/chat_format.h"
#include "text/ffi.h"
#include "text/json_text.h"
#include "text/lark_rules.h"
#include "text/schema_grammar.h"
#include "text/tool_grammar.h"

namespace ft {

namespace {

/// A mask that exceeds the step limits ends the request with an error; hand-written schemas stay far below
/// them.
constexpr ft_text_grammar_limits kLimits = {.grammar_size = kMaxGrammarSymbols,
                                            .lexer_fuel = 2'000'000,
                                            .step_fuel = 2'000'000,
                                            .step_items = 500'000,
                                            .lexer_states = 250'000};

constexpr size_t kMaxLarkBytes = 4 * kMaxSchemaBytes;  // of rules made from a schema

const uint32_t* ffi_ids(std::span<const int32_t> tokens) {
  return reinterpret_cast<const uint32_t*>(tokens.data());  // a negative id is not in any vocabulary
}

Status status_of(ft_text_code code, const FfiBytes& message) {
  return code == FT_TEXT_OK ? Status() : Status(ffi_error(code, message, "the grammar stopped: "));
}

}  // namespace

void GrammarMatcher::Deleter::operator()(ft_text_matcher* handle) const { ft_text_matcher_free(handle); }

Status GrammarMatcher::mask(std::span<uint32_t> words) {
  FfiBytes message;
  return status_of(ft_text_matcher_mask(handle_.get(), words.data(), words.size(), &message.raw), message);
}

Status GrammarMatcher::consume(std::span<const int32_t> tokens) {
  FfiBytes message;
  return status_of(ft_text_matcher_consume(handle_.get(), ffi_ids(tokens), tokens.size(), &message.raw),
                   message);
}

Status GrammarMatcher::rollback(size_t count) {
  FfiBytes message;
  return status_of(ft_text_matcher_rollback(handle_.get(), count, &message.raw), message);
}

Result<std::vector<int32_t>> GrammarMatcher::forced() {
  FfiIds ids;
  FfiBytes message;
  FT_TRY(status_of(ft_text_matcher_forced(handle_.get(), &ids.raw, &message.raw), message));
  return std::vector<int32_t>(ids.raw.data, ids.raw.data + ids.raw.size);
}

bool GrammarMatcher::accepting() {
  int32_t accepting = 0, stopped = 0;
  return ft_text_matcher_state(handle_.get(), &accepting, &stopped, nullptr) == FT_TEXT_OK && accepting != 0;
}

bool GrammarMatcher::stopped() {
  int32_t accepting = 0, stopped = 0;
  return ft_text_matcher_state(handle_.get(), &accepting, &stopped, nullptr) != FT_TEXT_OK || stopped != 0;
}

Result<GrammarMatcher> Grammar::start() const {
  ft_text_matcher* copy = nullptr;
  FfiBytes message;
  FT_TRY(status_of(ft_text_matcher_copy(start_.handle_.get(), &copy, &message.raw), message));
  return GrammarMatcher(copy);
}

struct GrammarCompiler::Vocabulary {
  struct Deleter {
    void operator()(ft_text_grammar_env* env) const { ft_text_grammar_env_free(env); }
  };
  std::once_flag once;
  std::unique_ptr<ft_text_grammar_env, Deleter> handle;
  std::optional<Error> error;
};

/// Grammars of calls that recent requests used: the next turn of an agent has the same tools.
struct GrammarCompiler::Kept {
  static constexpr size_t kMaxKept = 16;
  static constexpr size_t kMaxKeyBytes = size_t{1} << 18;  // larger tools are compiled each time

  std::mutex mutex;
  std::deque<std::pair<std::string, std::shared_ptr<const Grammar>>> recent;  // the newest first

  std::shared_ptr<const Grammar> find(const std::string& key) {
    const std::lock_guard lock(mutex);
    const auto found =
        std::find_if(recent.begin(), recent.end(), [&](const auto& e) { return e.first == key; });
    if (found == recent.end()) return nullptr;
    auto entry = std::move(*found);
    recent.erase(found);
    recent.push_front(std::move(entry));
    return recent.front().second;
  }
  void add(std::string key, std::shared_ptr<const Grammar> grammar) {
    if (key.size() > kMaxKeyBytes) return;
    const std::lock_guard lock(mutex);
    recent.emplace_front(std::move(key), std::move(grammar));
    if (recent.size() > kMaxKept) recent.pop_back();
  }
};

GrammarCompiler::GrammarCompiler(const Tokenizer& tokenizer, std::vector<int32_t> eos)
    : tokenizer_(tokenizer),
      eos_(std::move(eos)),
      vocabulary_(std::make_unique<Vocabulary>()),
      kept_(std::make_unique<Kept>()) {
  std::sort(eos_.begin(), eos_.end());
  eos_.erase(std::unique(eos_.begin(), eos_.end()), eos_.end());
  std::erase_if(eos_, [&](int32_t id) { return id < 0 || id >= tokenizer.vocab_size(); });
}

GrammarCompiler::~GrammarCompiler() = default;

GrammarCompiler::Compiled GrammarCompiler::compile(int kind, std::string_view source, size_t max_bytes,
                                                   std::string_view name, bool has_headers) const {
  if (source.size() > max_bytes) {
    return Error{Code::kInvalid, fmt::format("{} has {} bytes, more than the limit of {}; make it smaller",
                                             name, source.size(), max_bytes)};
  }
  begin_heavy_work(HeavyWork::kGrammar);
  const bool json = kind == FT_TEXT_GRAMMAR_JSON_SCHEMA || kind == FT_TEXT_GRAMMAR_LENIENT_JSON_SCHEMA;
  if (const int depth = json ? json_depth(source) : 0; depth > kMaxGrammarDepth) {
    return Error{Code::kInvalid, fmt::format("{} is nested {} deep, more than the limit of {}; move "
                                             "parts into definitions",
                                             name, depth, kMaxGrammarDepth)};
  }
  std::call_once(vocabulary_->once, [&] {
    ft_text_grammar_env* handle = nullptr;
    FfiBytes message;
    const ft_text_code code = ft_text_grammar_env_new(tokenizer_.handle(), ffi_ids(eos_), eos_.size(),
                                                      &kLimits, &handle, &message.raw);
    vocabulary_->handle.reset(handle);
    if (code != FT_TEXT_OK) {
      vocabulary_->error = ffi_error(code, message, "this model's vocabulary does not support grammars: ");
    }
  });
  if (vocabulary_->error) return *vocabulary_->error;
  ft_text_matcher* handle = nullptr;
  FfiBytes message;
  if (const ft_text_code code = ft_text_matcher_new(vocabulary_->handle.get(), kind, ffi_data(source),
                                                    source.size(), &handle, &message.raw);
      code != FT_TEXT_OK) {
    return ffi_error(code, message, fmt::format("{} cannot be used: ", name));
  }
  return std::shared_ptr<const Grammar>(new Grammar(handle, has_headers));
}

GrammarCompiler::Compiled GrammarCompiler::json_schema(std::string_view schema, SchemaRule rule) const {
  constexpr std::string_view kName = "the JSON schema";
  if (schema.size() <= kMaxSchemaBytes && is_json(schema, kMaxGrammarDepth)) {
    begin_heavy_work(HeavyWork::kGrammar);
    std::string lark;
    const auto parsed = read_json<nlohmann::ordered_json>(schema);
    FT_ASSIGN(const std::optional<std::string> start, counted_schema_rule(parsed, rule, "s", lark));
    if (start)
      return compile(FT_TEXT_GRAMMAR_LARK, readable_lark(fmt::format("start: {}\n{}", *start, lark)),
                     kMaxLarkBytes, kName);
  }
  const bool strict = rule == SchemaRule::kStrict;
  return compile(strict ? FT_TEXT_GRAMMAR_JSON_SCHEMA : FT_TEXT_GRAMMAR_LENIENT_JSON_SCHEMA, schema,
                 kMaxSchemaBytes, kName);
}

GrammarCompiler::Compiled GrammarCompiler::json_object() const {
  return json_schema(R"({"type": "object"})");
}

GrammarCompiler::Compiled GrammarCompiler::regex(std::string_view expression) const {
  return compile(FT_TEXT_GRAMMAR_REGEX, expression, kMaxGrammarBytes, "the regular expression");
}

GrammarCompiler::Compiled GrammarCompiler::lark(std::string_view source) const {
  return compile(FT_TEXT_GRAMMAR_LARK, source, kMaxGrammarBytes, "the Lark grammar");
}

GrammarCompiler::Compiled GrammarCompiler::tool_calls(const ToolCallRules& rules) const {
  if (rules.on_sight) return calls_on_sight(rules);
  begin_heavy_work(HeavyWork::kGrammar);
  FT_ASSIGN(const std::string source, tool_call_lark(rules, tokenizer_));
  return compile_calls(source, rules);
}

/// The tools whose schemas do not compile, found by halves: one among 128, or several among fewer. Empty
/// where that takes more failures, each of which may take all the work that a grammar is allowed, or where
/// only all together are beyond the limits.
std::vector<std::string> GrammarCompiler::unusable_tools(const ToolCallRules& rules) const {
  constexpr int kMaxFailures = 8;
  std::vector<std::string> unusable;
  std::vector<std::vector<std::string>> waiting = {callable_names(rules)};
  for (int failures = 0; !waiting.empty();) {
    const std::vector<std::string> names = std::move(waiting.back());
    waiting.pop_back();
    ToolCallRules some = rules;
    some.allowed = names;
    const Result<std::string> source = tool_call_lark(some, tokenizer_);
    if (!source.ok() || compile_calls(*source, rules).ok()) continue;  // not ok: none of them can be called
    if (++failures > kMaxFailures) return {};
    if (names.size() == 1) {
      unusable.push_back(names.front());
      continue;
    }
    const auto middle = names.begin() + static_cast<std::ptrdiff_t>(names.size() / 2);
    waiting.emplace_back(names.begin(), middle);
    waiting.emplace_back(middle, names.end());
  }
  return unusable;
}

GrammarCompiler::Compiled GrammarCompiler::compile_calls(const std::string& source,
                                                         const ToolCallRules& rules) const {
  return compile(FT_TEXT_GRAMMAR_LARK, source, kMaxLarkBytes, "the grammar of the tools",
                 rules.format->channels);
}

GrammarCompiler::Compiled GrammarCompiler::calls_on_sight(const ToolCallRules& rules) const {
  std::string key = fmt::format("{} {} {} {}\n{}", rules.owner, rules.format ? rules.format->name : "",
                                rules.parallel, fmt::join(rules.allowed, "\n"), rules.tools_json);
  if (std::shared_ptr<const Grammar> kept = kept_->find(key)) return kept;
  begin_heavy_work(HeavyWork::kGrammar);
  FT_ASSIGN(const std::string source, tool_call_lark(rules, tokenizer_));
  Compiled grammar = compile_calls(source, rules);
  if (!grammar.ok()) {
    ToolCallRules some = rules;
    some.free_tools = unusable_tools(rules);
    FT_ASSIGN(const std::string partly, tool_call_lark(some, tokenizer_));
    if (!some.free_tools.empty()) grammar = compile_calls(partly, rules);
  }
  if (!grammar.ok()) {  // all schemas together are beyond the limits
    ToolCallRules names = rules;
    names.any_arguments = true;
    FT_ASSIGN(const std::string free, tool_call_lark(names, tokenizer_));
    grammar = compile_calls(free, rules);
  }
  if (!grammar.ok()) return grammar;
  auto waiting = std::const_pointer_cast<Grammar>(*grammar);
  waiting->on_sight_ = !rules.format->calls.whole_answer || rules.format->channels;
  kept_->add(std::move(key), waiting);
  return std::shared_ptr<const Grammar>(std::move(waiting));
}

}  // namespace ft
