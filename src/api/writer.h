// AnswerWriter: writes one client's answer in its dialect from the events of its requests. The same object
// writes streaming and whole answers, so that the two cannot differ. One thread at a time; an exchange of the
// server owns it. A failed answer reports the error in its dialect.
//   begin       streaming: the frames before decoding starts
//   add         one event of choice i; streaming: appends its frames
//   keep_alive  streaming: a frame without content, for long prompts
//   end         streaming: the frames after the last choice has ended
//   reply       not streaming: the whole answer, after the last choice has ended
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/caller.h"
#include "api/http_response.h"
#include "api/model_info.h"
#include "api/notes.h"
#include "sched/request.h"

namespace ft::api {

/// The metadata that the server gives to every answer.
struct ResponseMeta {
  std::string id;  // 32 random hexadecimal digits; each dialect adds its prefix
  std::int64_t created_s = 0;
  std::uint64_t seed = 0;  // random; for requests without a seed
  std::string request_id;  // of the HTTP request, for errors within a stream
  Caller caller = {};
};

class AnswerWriter {
 public:
  virtual ~AnswerWriter() = default;
  /// The form that the client receives.
  std::string id() const { return prefix_ + meta_.id; }
  virtual void begin(std::string& out) = 0;
  virtual void add(std::size_t choice, const Event& event, std::string& out) = 0;
  virtual void keep_alive(std::string& out) { out += ": keep-alive\n\n"; }
  virtual void end(std::string& out) = 0;
  virtual HttpResponse reply() = 0;

 protected:
  /// `model_info` must outlive the writer. `named`: the model as the request names it, or empty.
  AnswerWriter(const char* prefix, const ModelInfo& model_info, const std::string& named, ResponseMeta meta)
      : model_info_(model_info),
        model_(named.empty() ? model_info.id : named),
        meta_(std::move(meta)),
        prefix_(prefix) {}

  const ModelInfo& model_info_;
  const std::string model_;
  const ResponseMeta meta_;

 private:
  const char* prefix_;
};

/// One HTTP exchange that decodes: the writer of its answer, and its requests in order of choices.
struct Exchange {
  bool stream = false;
  std::unique_ptr<AnswerWriter> writer;
  std::vector<Request> requests;
  Notes notes;
};

}  // namespace ft::api
