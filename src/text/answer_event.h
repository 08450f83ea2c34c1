// AnswerEvent: a piece of an answer, one type from the parser of tool calls to the writers of API frames. The
// tool parsers and Answer make text, reasoning and calls; the engine adds tokens, depths and the end
// (sched/request.h).
#pragma once

#include <cstdint>
#include <string>

namespace ft {

struct AnswerEvent {
  enum class Kind : std::uint8_t {
    kPromptToken,    // a scored token of the prompt
    kToken,          // a token of the answer
    kText,           // content
    kReasoning,      // text inside the reasoning
    kToolBegin,      // a new call; text is the function's name
    kToolArguments,  // text is the next piece of the call's JSON arguments
    kToolEnd,        // the call is complete; a call that is cut has none
    kDepth,          // text is the reason for a round's depth
    kEnd,
  };
  Kind kind = Kind::kText;
  std::string text = {};
};

}  // namespace ft
