// GenerateParams: a client's request, independent of its dialect. Each dialect's parser fills one; prepare.h
// turns it into engine requests.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "api/call_name.h"
#include "api/notes.h"
#include "sched/request_builder.h"
#include "text/text_format.h"

namespace ft::api {

/// Bounds of one request; each has a test at limit + 1.
inline constexpr int kMaxChoices = 16;
inline constexpr std::size_t kMaxPrompts = 64;
inline constexpr std::size_t kMaxTools = 512;
inline constexpr std::size_t kMaxMessages = 16'384;
inline constexpr std::size_t kMaxBias = 4'096;
inline constexpr int kMaxTopLogprobsAsked = 20;

enum class ToolChoice { kAuto, kNone, kRequired, kNamed };
enum class Format { kText, kJsonObject, kJsonSchema };
enum class Speculation { kAuto, kRequire, kOff };

struct GenerateParams : RequestOptions {
  std::string model;  // empty: the served model

  // The prompt: either a conversation ...
  std::string messages;  // JSON list as the chat template wants it
  std::string tools;     // JSON list of {type, function}, or empty
  std::optional<bool> think;
  std::string template_variables;  // a JSON object, or empty
  std::string effort;              // one of kEfforts, or empty; a template variable of that name wins
  bool continues = false;          // the last message is the start of the answer
  // ... or raw texts and ids, each with its own answer.
  struct Prompt {
    std::string text;
    std::vector<std::int32_t> ids;  // used if text is empty
  };
  std::vector<Prompt> prompts;

  int choices = 1;
  bool score_prompt = false;  // include log-probabilities of the prompt
  bool only_prompt = false;   // generate no answer
  std::string predicted;      // text that the answer is expected to repeat

  ToolChoice tool_choice = ToolChoice::kAuto;
  std::string named_tool;
  std::vector<std::string> allowed_tools;      // names that may be called; empty: all
  std::set<std::string> custom_tools;          // names of tools whose input is a text
  std::map<std::string, CallName> call_names;  // of offered tools that the client names otherwise
  struct FormattedText {
    std::string tool;
    TextFormat format;
    std::string field;  // of the format, for errors
  };
  std::vector<FormattedText> text_formats;  // of custom tools
  bool parallel_tools = true;
  bool legacy_functions = false;  // request used `functions`: answer with function_call
  Format format = Format::kText;
  std::string schema;          // of kJsonSchema
  bool strict_schema = false;  // an unenforceable keyword is an error
  bool strict_tools = false;   // at least one tool sets strict: true
  std::string schema_field = "response_format";

  Speculation speculation = Speculation::kAuto;

  bool stream = false;
  bool stream_usage = false;
  bool stream_speculation = false;

  Notes notes;
};

}  // namespace ft::api
