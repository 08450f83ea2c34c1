#include "tests/api_events.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace ft::api::test {
namespace {

Event text_event(Event::Kind kind, std::string text) {
  Event event;
  event.kind = kind, event.text = std::move(text);
  return event;
}

}  // namespace

ModelInfo model_info() {
  ModelInfo model_info;
  model_info.id = "tiny", model_info.version = "1";
  model_info.vocabulary = 100, model_info.context = 1000;
  model_info.responses = std::make_shared<ResponseStore>();
  return model_info;
}

Event text(std::string text) { return text_event(Event::Kind::kText, std::move(text)); }
Event reasoning(std::string text) { return text_event(Event::Kind::kReasoning, std::move(text)); }
Event tool_begin(std::string name) { return text_event(Event::Kind::kToolBegin, std::move(name)); }
Event tool_arguments(std::string text) { return text_event(Event::Kind::kToolArguments, std::move(text)); }
Event tool_end() { return text_event(Event::Kind::kToolEnd, ""); }

Event end_event(Finish finish) {
  Event event;
  event.kind = Event::Kind::kEnd, event.finish = finish;
  event.report.prompt_tokens = 7, event.report.completion_tokens = 5, event.report.cached_tokens = 2;
  return event;
}

Json Frame::data() const { return text == "[DONE]" ? Json() : Json::parse(text, nullptr, false); }

std::vector<Frame> frames(const std::string& stream) {
  std::vector<Frame> frames;
  for (std::size_t at = 0; at < stream.size();) {
    const std::size_t end = stream.find("\n\n", at);
    if (end == std::string::npos) {
      frames.push_back({"malformed", stream.substr(at)});
      break;
    }
    std::string rest = stream.substr(at, end - at);
    at = end + 2;
    if (rest.starts_with(":")) continue;  // a comment
    Frame frame;
    if (rest.starts_with("event: ")) {
      const std::size_t line = rest.find('\n');
      frame.event = rest.substr(7, line - 7);
      rest = line == std::string::npos ? "" : rest.substr(line + 1);
    }
    const bool good = rest.starts_with("data: ") && rest.find('\n') == std::string::npos;
    frame.text = good ? rest.substr(6) : rest;
    if (!good || frame.data().is_discarded()) frame.event = "malformed";
    frames.push_back(std::move(frame));
  }
  return frames;
}

}  // namespace ft::api::test
