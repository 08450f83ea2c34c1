// AnswerWriter: forms one client's answer, in its dialect, from the events of its requests. Streaming or
// whole, one object does both, so that the two cannot differ. Owner: one exchange of the server. Thread: one
// at a time. Cost: linear in the events. Errors: none; an answer that fails says so in its dialect.
//   begin       stream: the frames before anything is decoded
//   add         one event of choice i; stream: appends the frames that it makes
//   keep_alive  stream: a frame that means nothing, while a long prompt is being read
//   end         stream: the frames after the last choice has ended
//   reply       not streaming: the whole answer, after the last choice has ended
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "api/http_response.h"
#include "api/model_info.h"
#include "sched/request.h"

namespace ft::api {

/// What the server gives to every answer.
struct ResponseMeta {
  std::string id;  // 24 hexadecimal digits, random; dialects put their prefix before it
  std::int64_t created_s = 0;
  std::uint64_t seed = 0;  // random: of calls that name none
  std::string request_id;  // of the HTTP request, for errors that come in an answer's midst
};

class AnswerWriter {
 public:
  virtual ~AnswerWriter() = default;
  /// As the client sees it.
  virtual std::string id() const = 0;
  virtual void begin(std::string& out) = 0;
  virtual void add(std::size_t choice, const Event& event, std::string& out) = 0;
  virtual void keep_alive(std::string& out) = 0;
  virtual void end(std::string& out) = 0;
  virtual HttpResponse reply() = 0;
};

/// One HTTP exchange that decodes: who writes its answer, and its requests in order of choices.
struct Exchange {
  bool stream = false;
  std::unique_ptr<AnswerWriter> writer;
  std::vector<Request> requests;
};

}  // namespace ft::api
