#include "text/tool_grammar.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "text/chat_format.h"
#include "text/grammar_tags.h"
#include "text/json_text.h"
#include "text/lark_rules.h"
#include "text/pattern.h"
#include "text/schema_grammar.h"
#include "text/schema_graph.h"
#include "text/tags.h"

namespace ft {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kText = "TEXT";         // of an answer that is not a call
constexpr std::string_view kAnswer = "answer";     // the same, of a schema
constexpr size_t kMaxRuleBytes = size_t{1} << 22;  // of all tools' rules before equal ones are shared
constexpr size_t kMaxLenientRuleBytes = size_t{1}
                                        << 20;  // later tools' arguments are then free, unless asked

struct Function {
  std::string name;
  Json parameters;  // the schema
  bool strict = false;
};

Result<std::vector<Function>> functions_of(const ToolCallRules& rules) {
  const bool readable = is_json(rules.tools_json, kMaxGrammarDepth);
  const Json tools = readable ? read_json<Json>(rules.tools_json) : Json();
  if (!tools.is_array() || tools.empty()) {
    return Error{Code::kInvalid,
                 fmt::format("tools must be a JSON array of at least one {{type, function}}, nested at most "
                             "{} levels deep",
                             kMaxGrammarDepth)};
  }
  std::vector<Function> functions;
  for (const Json& tool : tools) {
    const Json& function = tool.is_object() && tool.contains("function") ? tool["function"] : tool;
    if (!function.is_object() || !function.value("name", Json()).is_string()) {
      return Error{Code::kInvalid, "every tool needs a function with a name"};
    }
    const auto name = function["name"].get<std::string>();
    const bool wanted = rules.allowed.empty() ||
                        std::find(rules.allowed.begin(), rules.allowed.end(), name) != rules.allowed.end();
    if (!wanted) continue;
    const Json parameters = function.value("parameters", Json::object());
    const bool given = parameters.is_object() || parameters.is_boolean();
    functions.push_back(
        {name, given ? parameters : Json::object(), function.value("strict", Json()) == true});
  }
  if (functions.size() > kMaxToolsOffered) {
    return Error{Code::kInvalid,
                 fmt::format("{} tools can be called, more than the limit of {}; offer fewer, or leave "
                             "tool_choice at auto, parallel_tool_calls at true, and strict out",
                             functions.size(), kMaxToolsOffered)};
  }
  for (const std::string& name : rules.allowed) {
    if (std::none_of(functions.begin(), functions.end(), [&](const auto& f) { return f.name == name; })) {
      return Error{Code::kInvalid, fmt::format("tool_choice: there is no tool '{}' among the tools", name)};
    }
  }
  return functions;
}

/// The answer without a call.
Result<std::string> answer_rule(const ToolCallRules& rules, std::string& lark) {
  const bool readable = is_json(rules.answer_schema, kMaxGrammarDepth);
  Json schema = readable ? read_json<Json>(rules.answer_schema) : Json();
  if (schema == true) schema = Json::object();
  if (schema.is_object()) {
    FT_ASSIGN(std::optional<std::string> counted, counted_schema_rule(schema, rules.answer_rule, "a", lark));
    return counted ? *counted : json_rule(schema, rules.answer_rule);
  }
  return Error{Code::kInvalid,
               fmt::format("the JSON schema must be an object or true, nested at most {} levels deep",
                           kMaxGrammarDepth)};
}

}  // namespace

Status check_name(std::string_view name, std::string_view what, std::string_view reserved) {
  const bool blank = name.find_first_not_of(kTagSpace) == std::string_view::npos;
  const bool spaced = !blank && (kTagSpace.find(name.front()) != std::string_view::npos ||
                                 kTagSpace.find(name.back()) != std::string_view::npos);
  const bool reserves = name.find_first_of(reserved) != std::string_view::npos;
  if (!blank && !spaced && !reserves && name.size() <= kMaxCallName) return {};
  return Error{Code::kInvalid,
               fmt::format("the {} '{}' cannot be written in a call of this model; use at most {} letters, "
                           "digits, _ and -",
                           what, name.substr(0, 2 * kMaxCallName), kMaxCallName)};
}

std::string json_rule(const Json& schema, SchemaRule rule) {
  Json whole = schema.is_object() ? schema : Json::object();
  whole["x-guidance"] = {{"whitespace_flexible", false},
                         {"item_separator", ", "},
                         {"key_separator", ": "},
                         {"lenient", rule == SchemaRule::kLenient}};
  return "%json " + write_json(whole);
}

namespace {

/// The rules of one function; refused where its schema is broken, or strict and not to be kept. Clients drop
/// the definitions that a tool of an MCP server refers to; unless it is strict, such a part is free.
Result<std::string> function_body(const ToolCallSyntax& form, const Function& function,
                                  const GrammarTags& tags, const std::string& prefix, std::string& lark,
                                  SchemaWork& work) {
  const SchemaGraph graph = SchemaGraph::build(function.parameters, true, &work);
  const std::vector<std::string>& wrong =
      graph.broken().empty() && function.strict ? graph.lost() : graph.broken();
  if (!wrong.empty()) {
    return Error{Code::kInvalid,
                 fmt::format("the parameters of '{}' cannot be used: {}", function.name, wrong.front())};
  }
  FT_ASSIGN(CallBody body, form.body({function.name, graph, tags}, prefix, lark));
  body.unenforced.insert(graph.unenforced().begin(), graph.unenforced().end());
  if (function.strict && !body.unenforced.empty()) {
    return Error{
        Code::kInvalid,
        fmt::format(
            "'{}' has \"strict\": true, but {} in its parameters cannot be enforced; omit it, or strict",
            function.name, fmt::join(body.unenforced, ", "))};
  }
  return std::move(body.expression);
}

/// The same for an answer that may do without the grammar: a schema that is broken or too large leaves the
/// arguments free. Empty: no call of the tool can be right, so it cannot be called.
std::string lenient_body(const ToolCallSyntax& form, const Function& function, const ToolCallRules& rules,
                         const GrammarTags& tags, const std::string& prefix, std::string& lark,
                         SchemaWork& work) {
  const size_t before = lark.size();
  const bool free =
      rules.any_arguments || std::ranges::find(rules.free_tools, function.name) != rules.free_tools.end();
  if (before <= kMaxLenientRuleBytes) {
    const SchemaGraph graph = SchemaGraph::build(function.parameters, true, &work);
    if (graph.allows_nothing()) return {};
    if (!free && graph.broken().empty()) {
      Result<CallBody> body = form.body({function.name, graph, tags}, prefix, lark);
      if (body.ok() && lark.size() < kMaxRuleBytes) return std::move(body->expression);
      lark.resize(before);
      if (!body.ok()) return {};
    }
  }
  const SchemaGraph any = SchemaGraph::build(Json{{"type", "object"}, {"additionalProperties", true}}, true);
  Result<CallBody> body = form.body({function.name, any, tags}, prefix, lark);
  return body.ok() ? std::move(body->expression) : std::string();
}

/// Text that the parser of calls would take for one is left to the calls.
std::string text_rule(const ToolCallSyntax& form) {
  if (form.openings.empty()) return fmt::format("{}: /(?s:.+)/\n", kText);
  std::string openings;
  for (const std::string_view opening : form.openings)
    openings += (openings.empty() ? "" : "|") + escaped_for_lark(opening);
  const char* before = form.whole_answer ? "\\s*" : "(?s:.*)";
  return fmt::format("{}: /(?s:.+)/ & ~/{}({})(?s:.*)/\n", kText, before, openings);
}

}  // namespace

std::vector<std::string> callable_names(const ToolCallRules& rules) {
  std::vector<std::string> names;
  const Result<std::vector<Function>> functions = functions_of(rules);
  if (!functions.ok()) return names;
  for (const Function& function : *functions) names.push_back(function.name);
  return names;
}

Result<std::string> tool_call_lark(const ToolCallRules& rules, const Tokenizer& tokenizer) {
  if (rules.format == nullptr || rules.format->calls.body == nullptr) {
    return Error{
        Code::kUnsupported,
        "the form of tool calls in the model's chat template cannot be enforced; leave "
        "tool_choice at auto, parallel_tool_calls at true, and response_format out while tools are offered"};
  }
  const ToolCallSyntax& form = rules.format->calls;
  const GrammarTags tags(tokenizer, rules.format->special_tokens);
  FT_ASSIGN(const std::vector<Function> functions, functions_of(rules));
  std::string lark, bodies, texts;
  SchemaWork work;
  for (size_t i = 0; i < functions.size(); ++i) {
    const std::string prefix = fmt::format("f{}", i);
    const auto text_format = rules.text_formats.find(functions[i].name);
    const bool is_text = text_format != rules.text_formats.end();
    if (is_text) FT_TRY(check_name(functions[i].name, "function", "<>{}\n"));
    std::string body;
    if (rules.on_sight) {
      body = lenient_body(form, functions[i], rules, tags, prefix, lark, work);
      if (body.empty()) continue;
    } else {
      FT_ASSIGN(body, is_text ? form.text_body({functions[i].name, text_format->second, tags}, prefix, texts)
                              : function_body(form, functions[i], tags, prefix, lark, work));
    }
    lark += fmt::format("{}: {}\n", prefix, body);
    if (lark.size() > kMaxRuleBytes) {
      return Error{Code::kInvalid,
                   fmt::format("the parameters of the first {} tools make more than {} bytes of rules; offer "
                               "fewer tools or simpler parameters",
                               i + 1, kMaxRuleBytes)};
    }
    bodies += (bodies.empty() ? "" : " | ") + prefix;
  }
  if (bodies.empty()) return Error{Code::kInvalid, "no tool can be written in a call of this model"};
  const bool required = rules.required || (rules.on_sight && (!form.whole_answer || rules.format->channels));
  const std::string more = form.between.empty() ? "" : json_quoted(form.between) + " ";
  const bool several = rules.parallel && !form.whole_answer;
  const std::string items = several ? fmt::format("call ({}call)*", more) : "call";
  const bool list = !form.list_open.empty();
  const std::string calls = list ? std::string("calls") : items;
  const bool text = !required && rules.answer_schema.empty();
  std::string start = calls;
  if (text && form.whole_answer) start = fmt::format("{} | {}", kText, calls);
  if (text && !form.whole_answer) start = fmt::format("{} | {} | {} {}", kText, calls, kText, calls);
  const std::string header = rules.format->channels ? tags.expression(rules.format->reasoning.gap) + " " : "";
  if (text && !header.empty()) start = fmt::format("{}{} | {}", header, kText, calls);
  if (!required && !text) {
    FT_ASSIGN(const std::string answer, answer_rule(rules, lark));
    lark += fmt::format("{}: {}\n", kAnswer, answer);
    start = fmt::format("{} | {}{}", calls, header, kAnswer);
  }
  std::string head = fmt::format("start: {}\n", start);
  // An answer of a schema may begin with the same brace, so that is a separate lexeme.
  const bool shares_brace = form.begin.starts_with('{') && !rules.answer_schema.empty();
  const std::string begin = shares_brace ? fmt::format("{} {}", json_quoted(form.begin.substr(0, 1)),
                                                       json_quoted(form.begin.substr(1)))
                                         : tags.expression(form.begin);
  if (list) {
    head += fmt::format("calls: {} {} {} {}\ncall: {}\n", begin, json_quoted(form.list_open), items,
                        json_quoted(form.list_close), bodies);
  } else {
    head += fmt::format("call: {} ({}) {}\n", begin, bodies, tags.expression(form.end));
  }
  if (text) head += text_rule(form);
  if (form.rules != nullptr) head += form.rules(tags);
  return readable_lark(shared_lark_rules(head + lark)) + texts;
}

}  // namespace ft
