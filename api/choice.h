// Choice: one answer as its events build it up: texts, tool calls, tokens with log-probabilities, the end.
// Owner: a writer, one for each request. Thread: one. Cost: O(event). Errors: none.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/json.h"
#include "sched/request.h"
#include "text/tokenizer.h"

namespace ft::api {

struct Choice {
  struct GenerateParams {
    std::string id, name, arguments;
  };
  struct Token {
    std::int32_t id = -1;
    bool drafted = false;
    std::optional<Logprobs> logprobs;
  };

  std::string text, reasoning;
  std::vector<GenerateParams> calls;
  std::vector<Token> prompt;  // if it was scored; the first without log-probabilities
  std::vector<Token> tokens;  // without the end token
  std::optional<Token> end_token;
  bool ended = false;
  Finish finish = Finish::kNone;
  std::string stop_string;  // that ended it, or empty
  Error error;
  Report report;

  /// Takes the event in; `eos` are the tokens that end answers, `call_id` names a new tool call.
  void take(const Event& event, const std::vector<std::int32_t>& eos, std::string_view call_prefix);
  /// The engine failed or was stopped: there is an error instead of an answer.
  bool failed() const { return finish == Finish::kError || finish == Finish::kCancelled; }
  Error failure() const;
};

/// `prefix` and 24 random hexadecimal digits.
std::string random_id(std::string_view prefix);
std::uint64_t random_seed();

/// OpenAI's {content: [{token, logprob, bytes, top_logprobs}]} for tokens [from, to).
Json logprobs_json(const Choice& choice, std::size_t from, std::size_t to, const Tokenizer& tokenizer);
/// The bytes of a token as text; what is no UTF-8 becomes U+FFFD.
std::string token_text(std::int32_t token, const Tokenizer& tokenizer);
/// A log-probability that JSON can hold: at least -9999.
double finite_logprob(double logprob);

}  // namespace ft::api
