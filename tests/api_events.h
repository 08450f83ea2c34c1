// For tests of the dialects' writers: events as the engine posts them, a Served without a model, and the
// frames of a stream taken apart again. Owner: values. Thread: one. Errors: none; a malformed frame says so.
#pragma once

#include <string>
#include <vector>

#include "api/json.h"
#include "api/served.h"
#include "sched/request.h"

namespace ft::api::test {

Served served();

Event text(std::string text);
Event reasoning(std::string text);
Event tool_begin(std::string name);
Event tool_arguments(std::string text);
Event tool_end();
/// With 7 tokens of prompt, 2 of them cached, and 5 of answer.
Event end_event(Finish finish);

struct Frame {
  std::string event;  // empty if it has no name; "malformed" if it is no frame
  std::string text;   // after "data: "
  Json data() const;  // null for [DONE]
};
std::vector<Frame> frames(const std::string& stream);

}  // namespace ft::api::test
