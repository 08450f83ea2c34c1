// A call: what a client asks for, with its dialect left behind. Each dialect's parser fills one; prepare.h
// turns it into requests of the engine. Owner: a value. Thread: any. Cost: none. What is absent is nullopt,
// so that the model's own defaults can stand in.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "program/sample_row.h"
#include "speculation/decoder.h"

namespace ft::api {

/// Bounds of one call; each has a test at limit + 1.
inline constexpr int kMaxChoices = 16;
inline constexpr std::size_t kMaxPrompts = 64;
inline constexpr std::size_t kMaxTools = 512;
inline constexpr std::size_t kMaxMessages = 16'384;
inline constexpr std::size_t kMaxBias = 4'096;
inline constexpr int kMaxTopLogprobsAsked = 20;

enum class ToolChoice { kAuto, kNone, kRequired, kNamed };
enum class Format { kText, kJsonObject, kJsonSchema };
enum class Speculation { kAuto, kRequire, kOff };

struct GenerateParams {
  std::string model;  // empty: whatever is served

  // What goes into the prompt: either a conversation ...
  std::string messages;  // JSON list as the chat template wants it
  std::string tools;     // JSON list of {type, function}, or empty
  std::optional<bool> think;
  std::string template_variables;  // a JSON object, or empty
  bool continues = false;          // the last message is the beginning of the answer
  // ... or texts and ids as they stand, one answer each.
  struct Prompt {
    std::string text;
    std::vector<std::int32_t> ids;  // used if text is empty
  };
  std::vector<Prompt> prompts;

  std::optional<float> temperature, top_p, min_p, repetition, presence, frequency;
  std::optional<int> top_k;
  std::optional<std::uint64_t> seed;
  std::vector<LogitBias> bias;
  std::vector<std::string> stops;
  std::int64_t max_tokens = 0;  // 0: as long as the context lets it
  int choices = 1;
  int logprobs = -1;          // -1: none; else alternatives
  bool score_prompt = false;  // log-probabilities of the prompt too
  bool only_prompt = false;   // and nothing else
  int thinking_budget = -1;   // tokens of reasoning; -1: no limit
  std::string predicted;      // text that the answer will probably repeat

  ToolChoice tool_choice = ToolChoice::kAuto;
  std::string named_tool;
  bool parallel_tools = true;
  bool legacy_functions = false;  // asked for as `functions`: a call is given as function_call
  Format format = Format::kText;
  std::string schema;          // of kJsonSchema
  bool strict_schema = false;  // a keyword that cannot be enforced is an error
  bool strict_tools = false;   // a tool asks for arguments by its schema
  std::string schema_field = "response_format";

  Speculation speculation = Speculation::kAuto;
  DrafterKind drafter = DrafterKind::kAuto;
  Acceptance acceptance = Acceptance::kCoupled;
  int depth = -1;  // -1: auto

  bool stream = false;
  bool stream_usage = false;
  bool stream_speculation = false;
};

}  // namespace ft::api
