// Cost of an answer and the effect of speculation: body extensions, each dialect's usage, and the
// X-Speculation header. The figures of several choices are summed.
#pragma once

#include <string>
#include <vector>

#include "api/choice.h"
#include "api/http_response.h"
#include "api/json.h"

namespace ft::api {

/// Sums over choices; the prompt counts once.
struct Account {
  int prompt_tokens = 0, cached_tokens = 0, completion_tokens = 0, reasoning_tokens = 0;
  double prompt_ms = 0, decode_ms = 0;  // the longest of the choices
  bool engaged = false;
  std::string drafter, reason;
  SpeculationReport speculation;
};
Account account(const std::vector<Choice>& choices);

Json openai_usage(const Account& account);
/// {engaged, reason, drafter, rounds, drafted, accepted, accepted_by_position, drafted_by_position,
/// tokens_per_round}
Json speculation_json(const Account& account);
/// {prompt_n, prompt_ms, cached_n, predicted_n, predicted_ms, predicted_per_second}
Json timings_json(const Account& account);
/// The response for the whole answer `json`, including its usage, speculation, timings, and header.
HttpResponse accounted_reply(Json json, const Account& account);
/// "engaged; drafter=mtp; rounds=9; drafted=20; accepted=14" or "idle; reason"
std::string speculation_header(const Account& account);

}  // namespace ft::api
