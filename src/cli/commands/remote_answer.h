// A turn of `chat` answered by a running server: the conversation as a chat request, its stream as events.
// Blocks until the answer has ended. An error of the server becomes kIo with its sentence.
#pragma once

#include <atomic>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "cli/commands/answering.h"
#include "cli/commands/chat_session.h"
#include "server/client.h"

namespace ft::cli {

/// The body of the request.
std::string remote_request(const ChatSession& session);

/// Turns the lines of a stream into events and a complete answer.
class RemoteAnswer {
 public:
  explicit RemoteAnswer(std::function<void(const Event&)> show) : show_(std::move(show)) {}
  void take(std::string_view line);
  /// The answer, or the error of the server or of a stream that ended early.
  Result<GatheredAnswer> finish();

 private:
  void show(Event::Kind kind, std::string text);
  void take_delta(const nlohmann::ordered_json& delta);
  void take_usage(const nlohmann::ordered_json& frame);

  std::function<void(const Event&)> show_;
  GatheredAnswer answer_;
  std::string error_;
  bool ended_ = false;
};

/// `stop` ends the answer early and keeps the tokens so far.
Result<GatheredAnswer> ask_server(const server::Client& client, const ChatSession& session,
                                  const std::function<void(const Event&)>& show,
                                  const std::atomic<bool>& stop);

}  // namespace ft::cli
