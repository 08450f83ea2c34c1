#include "api/choice.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/random_source.h"
#include "base/utf8.h"

namespace ft::api {

std::uint64_t random_seed() { return random_64(); }

std::string random_id(std::string_view prefix) {
  const std::uint64_t high = random_64(), low = random_64();
  return fmt::format("{}{:016x}{:016x}", prefix, high, low);
}

void Choice::take(const Event& event, const std::vector<std::int32_t>& eos, std::string_view call_prefix) {
  switch (event.kind) {
    case Event::Kind::kPromptToken:
      prompt.push_back({event.token, false, event.logprobs});
      break;
    case Event::Kind::kToken:
      if (std::find(eos.begin(), eos.end(), event.token) != eos.end()) {
        end_token = {event.token, !event.drafted_by.empty(), event.logprobs};
        break;
      }
      tokens.push_back({event.token, !event.drafted_by.empty(), event.logprobs});
      break;
    case Event::Kind::kText:
      text += event.text;
      break;
    case Event::Kind::kReasoning:
      reasoning += event.text;
      break;
    case Event::Kind::kToolBegin:
      calls.push_back({random_id(call_prefix), event.text, "", false});
      break;
    case Event::Kind::kToolArguments:
      if (!calls.empty()) calls.back().arguments += event.text;
      break;
    case Event::Kind::kToolEnd:
      if (!calls.empty()) calls.back().complete = true;
      break;
    case Event::Kind::kDepth:
      break;
    case Event::Kind::kEnd:
      ended = true;
      finish = event.finish;
      stop_string = event.stop_string;
      error = event.error;
      report = event.report;
      break;
  }
}

Error Choice::failure() const {
  if (finish == Finish::kError) return error;
  return {Code::kCancelled,
          error.message.empty() ? "the server is stopping; send the request again" : error.message};
}

std::string token_text(std::int32_t token, const Tokenizer& tokenizer) {
  return utf8_replace_invalid(tokenizer.token_bytes(token));
}

double finite_logprob(double logprob) { return std::isfinite(logprob) ? logprob : -9999; }

namespace {

Json entry(std::int32_t token, double logprob, const Tokenizer& tokenizer) {
  Json bytes = Json::array();
  for (const char byte : tokenizer.token_bytes(token)) bytes.push_back(static_cast<unsigned char>(byte));
  return Json{{"token", token_text(token, tokenizer)},
              {"logprob", finite_logprob(logprob)},
              {"bytes", std::move(bytes)}};
}

}  // namespace

Json logprobs_json(const Choice& choice, std::size_t from, std::size_t to, const Tokenizer& tokenizer) {
  Json content = Json::array();
  for (std::size_t i = from; i < to; ++i) {
    const Choice::Token& token = choice.tokens[i];
    if (!token.logprobs) continue;
    Json item = entry(token.id, token.logprobs->sampled, tokenizer);
    item["top_logprobs"] = Json::array();
    for (const TokenLogprob& top : token.logprobs->top) {
      item["top_logprobs"].push_back(entry(top.token, top.logprob, tokenizer));
    }
    content.push_back(std::move(item));
  }
  return Json{{"content", std::move(content)}, {"refusal", nullptr}};
}

}  // namespace ft::api
