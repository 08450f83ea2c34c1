// For tests of the API writers: events as the engine posts them, model info without a model, and a parser for
// the frames of a stream. A malformed frame is reported as such.
#pragma once

#include <string>
#include <vector>

#include "api/json.h"
#include "api/model_info.h"
#include "sched/request.h"

namespace ft::api::test {

ModelInfo model_info();

Event text(std::string text);
Event reasoning(std::string text);
Event tool_begin(std::string name);
Event tool_arguments(std::string text);
Event tool_end();
/// A report with 7 tokens of prompt, 2 of them cached, and 5 of answer.
Event end_event(Finish finish);

struct Frame {
  std::string event;  // empty if it has no name; "malformed" if it is not a frame
  std::string text;   // after "data: "
  Json data() const;  // null for [DONE]
};
std::vector<Frame> frames(const std::string& stream);

}  // namespace ft::api::test
