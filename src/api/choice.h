// Choice: one answer, built up from its events: text, tool calls, tokens with log-probabilities, and the
// finish reason. Each writer has one Choice per requested answer and uses it from one thread at a time.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/json.h"
#include "sched/request.h"
#include "text/tokenizer.h"

namespace ft::api {

struct Choice {
  struct ToolCall {
    std::string id, name, arguments;
    bool complete = false;  // otherwise the answer was cut inside it
  };
  struct Token {
    std::int32_t id = -1;
    bool drafted = false;
    std::optional<Logprobs> logprobs;
  };

  std::string text, reasoning;
  std::vector<ToolCall> calls;
  std::vector<Token> prompt;  // if scored; the first token has no log-probabilities
  std::vector<Token> tokens;  // without the end token
  std::optional<Token> end_token;
  bool ended = false;
  Finish finish = Finish::kNone;
  std::string stop_string;  // the stop string that ended the answer, or empty
  Error error;
  Report report;

  /// Adds an event. `eos` are the tokens that end answers; `call_id` is the id for a new tool call.
  void take(const Event& event, const std::vector<std::int32_t>& eos, std::string_view call_prefix);
  /// The engine failed or stopped; the answer is an error.
  bool failed() const { return finish == Finish::kError || finish == Finish::kCancelled; }
  Error failure() const;
  /// There are calls, and the last one was not cut.
  bool called() const { return !calls.empty() && calls.back().complete; }
};

/// `prefix` followed by 32 hexadecimal digits: 128 bits of the system's random source.
std::string random_id(std::string_view prefix);
/// Drawn separately from the same source, so that no id reveals it.
std::uint64_t random_seed();

/// OpenAI's {content: [{token, logprob, bytes, top_logprobs}]} for tokens [from, to).
Json logprobs_json(const Choice& choice, std::size_t from, std::size_t to, const Tokenizer& tokenizer);
/// The bytes of a token as text; invalid UTF-8 becomes U+FFFD.
std::string token_text(std::int32_t token, const Tokenizer& tokenizer);
/// A log-probability that JSON can hold: min -9999.
double finite_logprob(double logprob);

}  // namespace ft::api
