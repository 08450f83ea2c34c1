// Writes the answer of POST /v1/chat/completions: chat.completion, or chat.completion.chunk frames. Frames of
// a choice, in order: role once, with its first event, with content "" for text and null for reasoning and
// calls; reasoning, content, or tool calls (id and name once, then pieces of the arguments); finish_reason.
// Usage follows if requested, then [DONE]. Source: OpenAI's API reference. See writer.h.
#pragma once

#include "api/choice.h"
#include "api/generate_params.h"
#include "api/openai/custom_tool.h"
#include "api/writer.h"

namespace ft::api {

class ChatWriter final : public AnswerWriter {
 public:
  ChatWriter(const ModelInfo& model_info, const GenerateParams& call, ResponseMeta meta, std::size_t choices);

  void begin(std::string& out) override;
  void add(std::size_t choice, const Event& event, std::string& out) override;
  void end(std::string& out) override;
  HttpResponse reply() override;

 private:
  struct Shown {             // progress of one choice in the stream
    std::size_t tokens = 0;  // tokens whose log-probabilities and origins were sent
    bool begun = false;      // the role was sent
    CustomInput input;       // of the call that is being written
  };
  Json envelope(const char* object) const;
  void frame(std::size_t choice, Json delta, Json finish, std::string& out);
  void begin_choice(std::size_t choice, Event::Kind kind, std::string& out);
  void tool_frame(std::size_t choice, const Event& event, std::string& out);
  bool is_custom(const Choice& choice) const;
  Json message(const Choice& choice) const;

  const bool stream_usage_, stream_speculation_, logprobs_, legacy_functions_;
  const std::set<std::string> custom_tools_;
  std::vector<Choice> choices_;
  std::vector<Shown> shown_;
};

}  // namespace ft::api
