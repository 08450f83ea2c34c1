// Writes the answer of POST /v1/responses: a response object, or its events, each with its own type and a
// sequence_number. Items are written in sequence: reasoning, message, each call. A call of a tool that is
// part of the client (client_calls.h) is written once it is whole; one that was cut is not written. The last
// event is always response.completed, response.incomplete, or response.failed, and contains the whole
// response. The answer is stored for previous_response_id unless the request says store: false. Source:
// OpenAI's API reference. See writer.h.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/choice.h"
#include "api/openai/custom_tool.h"
#include "api/openai/responses_request.h"
#include "api/writer.h"

namespace ft::api {

class ResponsesWriter final : public AnswerWriter {
 public:
  ResponsesWriter(const ModelInfo& model_info, ResponsesRequest request, ResponseMeta meta);

  void begin(std::string& out) override;
  void add(std::size_t choice, const Event& event, std::string& out) override;
  void keep_alive(std::string& out) override;
  void end(std::string& out) override;
  HttpResponse reply() override;

 private:
  enum class Kind { kReasoning, kMessage, kFunction, kCustom, kClient };
  struct Item {
    Kind kind = Kind::kMessage;
    std::string id = {}, call_id = {};
    CallName called = {};
    std::string text = {};                 // text, arguments, or a custom tool's input
    std::vector<std::size_t> deltas = {};  // the bytes of each piece of it that was sent
    std::size_t first_token = 0;           // index of the message's first token in the choice
    std::size_t end_token = 0;
    std::string status = "in_progress";
  };

  void frame(const char* type, const Json& data, std::string& out);
  void frame_numbered(const char* type, std::int64_t number, const Json& data, std::string& out) const;
  void open(Item item, std::string& out);
  void begin_call(const std::string& offered, std::string& out);
  void write_client_call(std::string& out);
  void close(const char* status, std::string& out);
  void close_text(const Item& item, std::string& out);
  void close_call(Item& item, std::string& out);
  void grow(Kind kind, const std::string& text, std::string& out);
  void grow_call(const std::string& text, std::string& out);
  void finish(std::string& out);
  Json place() const;
  Json part(const Item& item, bool filled) const;
  Json item_json(const Item& item) const;
  Json tokens_json(std::size_t from, std::size_t to) const;
  Json response(const char* status) const;
  void keep(const Json& response) const;
  const char* final_status() const;

  const ResponsesRequest request_;
  Choice choice_;
  CustomInput input_;                // of the open item
  std::optional<Item> client_call_;  // unfinished; not yet in items_
  std::vector<Item> items_;
  bool is_open_ = false;     // the last item is open
  std::size_t shown_ = 0;    // tokens whose log-probabilities were sent
  std::int64_t events_ = 0;  // sequence_number of the next event
};

}  // namespace ft::api
