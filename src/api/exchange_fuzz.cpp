// Feeds arbitrary bodies to every route that has one, with the shipped model's tokenizer, template, and
// grammars. A refusal has a sentence. An accepted body makes requests within bounds. Its writer turns
// arbitrary events into JSON, whole and streamed. The first byte selects the route; the last ones are the
// events. Each body is tried on the lanes in sequence, as in the server: a lane defers work at most once, and
// the lane that does all work has the same result as the one that answered.
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "api/anthropic/messages.h"
#include "api/error_reply.h"
#include "api/fields.h"
#include "api/generate_params.h"
#include "api/listing.h"
#include "api/openai/chat.h"
#include "api/openai/completions.h"
#include "api/openai/responses.h"
#include "base/heavy_work.h"
#include "tests/api_events.h"

namespace {

using namespace ft;
using namespace ft::api;

constexpr const char* kModel = "assets/qwen3.5-tiny";  // from the root of the repository
constexpr std::size_t kMaxEvents = 24;

void demand(bool holds) {
  if (!holds) std::abort();
}

const ModelInfo& model_info() {
  static const auto tokenizer = Tokenizer::load(kModel);
  static const auto chat_template = ChatTemplate::load(kModel);
  demand(tokenizer.ok() && chat_template.ok());
  static const ModelInfo model_info = [] {
    ModelInfo made = test::model_info();
    made.tokenizer = &*tokenizer, made.chat_template = &*chat_template;
    made.chat_format = find_chat_format("qwen3_5");
    made.eos = {8180, 8178};
    made.grammars = std::make_shared<const GrammarCompiler>(*tokenizer, made.eos);
    made.vocabulary = tokenizer->vocab_size(), made.context = 4096;
    (void)made.responses->put("resp_1", {"{}", R"([{"role":"user","content":"a"}])"}, {});
    return made;
  }();
  return model_info;
}

void check_error(const Error& error) {
  demand(!error.message.empty());
  for (const Dialect dialect : {Dialect::kOpenAi, Dialect::kAnthropic}) {
    demand(Json::parse(error_reply(dialect, error, "req_1").body, nullptr, false).is_object());
  }
}

Event event_of(std::uint8_t byte, const Request& request) {
  Event event;
  event.text = byte % 3 == 0 ? "\xF0\x9F\xA6\x8A" : R"({"a":)";
  event.token = byte * 31 % model_info().vocabulary;
  if (const int alternatives = request.fields().slot.logprobs; alternatives >= 0) {
    event.logprobs.emplace().sampled = -0.5 * byte;
    for (int i = 0; i < alternatives; ++i) event.logprobs->top.push_back({i, -0.25 * i});
  }
  constexpr Event::Kind kKinds[] = {
      Event::Kind::kToken,         Event::Kind::kText,    Event::Kind::kReasoning, Event::Kind::kToolBegin,
      Event::Kind::kToolArguments, Event::Kind::kToolEnd, Event::Kind::kDepth};
  event.kind = kKinds[byte / 8 % std::size(kKinds)];
  return event;
}

Event end_of(std::uint8_t byte) {
  constexpr Finish kEnds[] = {Finish::kStop, Finish::kLength, Finish::kContext, Finish::kCancelled,
                              Finish::kError};
  Event end = test::end_event(kEnds[byte % std::size(kEnds)]);
  if (end.finish == Finish::kError) end.error = {Code::kExhausted, "no memory"};
  return end;
}

void check_requests(const std::vector<Request>& requests) {
  demand(!requests.empty() && requests.size() <= kMaxPrompts * kMaxChoices);
  for (const Request& request : requests) {
    const RequestFields& fields = request.fields();
    demand(!fields.prompt.empty() && static_cast<std::int64_t>(fields.prompt.size()) < model_info().context);
    demand(fields.slot.max_tokens >= (fields.score_prompt ? 0 : 1));
    demand(fields.slot.max_tokens + static_cast<std::int64_t>(fields.prompt.size()) <= model_info().context);
  }
}

void answer(Exchange exchange, std::string_view events) {
  check_requests(exchange.requests);
  std::string stream;
  exchange.writer->begin(stream);
  for (std::size_t i = 0; i < exchange.requests.size(); ++i) {
    const Request& request = exchange.requests[i];
    for (std::size_t at = 0; request.fields().score_prompt && at < request.fields().prompt.size(); ++at) {
      Event scored = event_of(static_cast<std::uint8_t>(at), request);
      scored.kind = Event::Kind::kPromptToken, scored.token = request.fields().prompt[at];
      if (at == 0) scored.logprobs.reset();
      exchange.writer->add(i, scored, stream);
    }
    for (const char event : events)
      exchange.writer->add(i, event_of(static_cast<std::uint8_t>(event), request), stream);
    exchange.writer->keep_alive(stream);
    exchange.writer->add(i, end_of(static_cast<std::uint8_t>(events.back())), stream);
  }
  exchange.writer->end(stream);
  for (const test::Frame& frame : test::frames(stream)) demand(frame.event != "malformed");
  const HttpResponse reply = exchange.writer->reply();
  demand(reply.status == 200 || reply.status >= 400);
  demand(Json::parse(reply.body, nullptr, false).is_object());
}

/// Whether the body is accepted, and the error or the number of its requests.
using Outcome = std::pair<bool, std::string>;

template <class Work>
auto on_lanes(const Work& work) {
  try {
    const HeavyWorkElsewhere elsewhere{HeavyWork::kFetch, HeavyWork::kGrammar, HeavyWork::kRender};
    return work();
  } catch (const HeavyWorkNeeded& needed) {
    if (needed.work == HeavyWork::kFetch) return work();
  }
  try {
    const HeavyWorkElsewhere elsewhere{HeavyWork::kFetch};
    return work();
  } catch (const HeavyWorkNeeded& needed) {
    demand(needed.work == HeavyWork::kFetch);
  }
  return work();
}

Outcome outcome(const Result<Exchange>& exchange) {
  if (!exchange.ok()) return {false, exchange.error().message};
  std::string prompts;
  for (const Request& request : exchange->requests) {
    for (const std::int32_t token : request.fields().prompt) prompts += std::to_string(token) + " ";
    prompts += "; ";
  }
  return {true, prompts};
}

Outcome outcome(const Result<HttpResponse>& reply) {
  return reply.ok() ? Outcome{true, reply->body} : Outcome{false, reply.error().message};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 3) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::string_view body = input.substr(1);
  constexpr Result<Exchange> (*kDecode[])(const ModelInfo&, std::string_view, const ResponseMeta&) = {
      chat_exchange, completions_exchange, responses_exchange, messages_exchange};
  constexpr Result<HttpResponse> (*kReply[])(const ModelInfo&, std::string_view) = {
      tokenize_reply, detokenize_reply, count_tokens_reply};
  constexpr std::size_t kFirstReply = 5;
  const std::size_t route = data[0] % 8;
  if (route < 4) {
    const auto decode = [&] { return kDecode[route](model_info(), body, ResponseMeta{"0", 1, 2, "req_1"}); };
    Result<Exchange> exchange = on_lanes(decode);
    demand(outcome(exchange) == outcome(decode()));
    if (!exchange.ok()) return check_error(exchange.error()), 0;
    answer(std::move(*exchange), body.substr(body.size() - std::min(body.size(), kMaxEvents)));
    return 0;
  }
  const auto answer_once = [&] {
    return route < kFirstReply ? responses_count_reply(model_info(), body, {})
                               : kReply[route - kFirstReply](model_info(), body);
  };
  const Result<HttpResponse> reply = on_lanes(answer_once);
  demand(outcome(reply) == outcome(answer_once()));
  if (!reply.ok()) return check_error(reply.error()), 0;
  demand(Json::parse(reply->body, nullptr, false).is_object());
  return 0;
}
