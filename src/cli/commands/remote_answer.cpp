#include "cli/commands/remote_answer.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/json.h"

namespace ft::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string text_at(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

}  // namespace

std::string remote_request(const ChatSession& session) {
  Json body{{"messages", read_json<Json>(session.rendered_messages())},
            {"stream", true},
            {"stream_options", {{"include_usage", true}}}};
  const RequestOptions& request = session.request;
  if (request.max_tokens > 0) body["max_tokens"] = request.max_tokens;
  each_sampling_number([&](const auto& number) {
    if (const auto& given = request.sampling.*number.asked) body[number.name] = *given;
  });
  body["seed"] = static_cast<std::int64_t>(request.seed.value_or(0));
  if (!request.stops.empty()) body["stop"] = request.stops;
  for (const LogitBias& bias : request.bias) body["logit_bias"][std::to_string(bias.token)] = bias.value;
  if (session.think) body["chat_template_kwargs"]["enable_thinking"] = *session.think;
  if (request.drafter == DrafterKind::kNone) body["speculation"] = "off";
  if (request.depth >= 0) body["depth"] = request.depth;
  if (request.acceptance == Acceptance::kRejection) body["acceptance"] = "rejection";
  return write_json(body);
}

void RemoteAnswer::show(Event::Kind kind, std::string text) {
  Event event;
  event.kind = kind;
  event.text = std::move(text);
  if (show_) show_(event);
}

void RemoteAnswer::take_delta(const Json& delta) {
  if (std::string text = text_at(delta, "reasoning_content"); !text.empty()) {
    answer_.reasoning += text;
    show(Event::Kind::kReasoning, std::move(text));
  }
  if (std::string text = text_at(delta, "content"); !text.empty()) {
    answer_.text += text;
    show(Event::Kind::kText, std::move(text));
  }
  const auto calls = delta.find("tool_calls");
  if (calls == delta.end() || !calls->is_array()) return;
  for (const Json& call : *calls) {
    const Json function = call.value("function", Json::object());
    if (std::string name = text_at(function, "name"); !name.empty()) {
      answer_.tool_calls.push_back({name, ""});
      show(Event::Kind::kToolBegin, std::move(name));
    }
    if (std::string piece = text_at(function, "arguments"); !piece.empty() && !answer_.tool_calls.empty()) {
      answer_.tool_calls.back().arguments += piece;
      show(Event::Kind::kToolArguments, std::move(piece));
    }
  }
}

void RemoteAnswer::take_usage(const Json& frame) {
  Report& report = answer_.report;
  if (const Json usage = frame.value("usage", Json()); usage.is_object()) {
    report.prompt_tokens = usage.value("prompt_tokens", 0);
    report.completion_tokens = usage.value("completion_tokens", 0);
  }
  if (const Json timings = frame.value("timings", Json()); timings.is_object()) {
    report.prompt_ms = timings.value("prompt_ms", 0.0);
    report.decode_ms = timings.value("predicted_ms", 0.0);
  }
  const Json speculation = frame.value("speculation", Json());
  if (!speculation.is_object()) return;
  report.engaged = speculation.value("engaged", false);
  report.drafter = text_at(speculation, "drafter"), report.reason = text_at(speculation, "reason");
  report.speculation.rounds = speculation.value("rounds", 0);
  report.speculation.drafted = speculation.value("drafted", 0);
  report.speculation.accepted = speculation.value("accepted", 0);
  report.speculation.emitted = report.completion_tokens;
}

void RemoteAnswer::take(std::string_view line) {
  constexpr std::string_view kData = "data: ";
  if (!line.starts_with(kData)) return;
  line.remove_prefix(kData.size());
  if (line == "[DONE]") {
    ended_ = true;
    return;
  }
  const Json frame = read_json<Json>(line);
  if (!frame.is_object()) return;
  if (const auto error = frame.find("error"); error != frame.end() && error->is_object()) {
    error_ = text_at(*error, "message");
    return;
  }
  try {
    take_usage(frame);
    const Json choices = frame.value("choices", Json::array());
    if (!choices.is_array() || choices.empty() || !choices[0].is_object()) return;
    if (choices[0].contains("delta")) take_delta(choices[0]["delta"]);
    const std::string reason = text_at(choices[0], "finish_reason");
    if (reason == "length") answer_.finish = Finish::kLength;
    if (reason == "stop" || reason == "tool_calls") answer_.finish = Finish::kStop;
  } catch (const Json::exception& problem) {
    error_ = std::string("the server sent an invalid answer: ") + problem.what();
  }
}

Result<GatheredAnswer> RemoteAnswer::finish() {
  if (!error_.empty()) return Error{Code::kIo, "server: " + error_};
  if (!ended_) return Error{Code::kIo, "the stream ended early; check that the server is still running"};
  return std::move(answer_);
}

Result<GatheredAnswer> ask_server(const server::Client& client, const ChatSession& session,
                                  const std::function<void(const Event&)>& show,
                                  const std::atomic<bool>& stop) {
  RemoteAnswer answer(show);
  FT_ASSIGN(const server::ClientResponse reply,
            client.stream("/v1/chat/completions", remote_request(session), [&](std::string_view line) {
              answer.take(line);
              if (stop) answer.take("data: [DONE]");
              return !stop;
            }));
  if (reply.status == 200) return answer.finish();
  const Json body = read_json<Json>(reply.body);
  std::string sentence = reply.body;
  if (body.is_object() && body.contains("error") && body["error"].is_object()) {
    sentence = text_at(body["error"], "message");
  }
  return Error{Code::kIo, fmt::format("the server answered {}: {}", reply.status, sentence)};
}

}  // namespace ft::cli
