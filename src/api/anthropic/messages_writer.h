// Writes the answer of POST /v1/messages: a message, or its event stream:
//   message_start, ping
//   per block, one open at a time: content_block_start, content_block_delta..., content_block_stop
//   message_delta with the stop reason and all usage, message_stop
// Thinking precedes text and ends with its only signature. A tool's input is sent as JSON pieces. A failed
// answer ends with an error event. Source: Anthropic's API reference, Streaming. See writer.h.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "api/choice.h"
#include "api/generate_params.h"
#include "api/writer.h"

namespace ft::api {

class MessagesWriter final : public AnswerWriter {
 public:
  MessagesWriter(const ModelInfo& model_info, const GenerateParams& call, ResponseMeta meta,
                 int prompt_tokens);

  void begin(std::string& out) override;
  void add(std::size_t choice, const Event& event, std::string& out) override;
  void keep_alive(std::string& out) override;
  void end(std::string& out) override;
  HttpResponse reply() override;

 private:
  struct Block {
    enum class Kind { kThinking, kText, kToolUse };
    Kind kind = Kind::kText;
    std::string text;      // text, thinking, or JSON input
    std::string id;        // of a tool_use block
    CallName called = {};  // of a tool_use block
  };
  Json envelope() const;
  Json usage() const;
  const char* stop_reason() const;
  Json stop_sequence() const;
  void open(Block block, std::string& out);
  void close(std::string& out);
  void piece(Block::Kind kind, const std::string& text, std::string& out);
  void finish(std::string& out);
  static Json tool_use(const Block& block, Json input);
  static Json whole(const Block& block);

  const int prompt_tokens_;
  const std::int64_t max_tokens_;
  const std::map<std::string, CallName> call_names_;
  std::vector<Choice> choices_;  // always one
  std::vector<Block> blocks_;
  bool open_ = false;  // the last block is open
};

/// The signature that a client returns with its thinking: a hash of the text, not a proof of origin.
std::string thinking_signature(std::string_view thinking);

}  // namespace ft::api
