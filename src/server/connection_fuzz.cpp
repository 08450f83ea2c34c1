// Feeds arbitrary bytes of up to three clients, in pieces of any size and order, to complete connections:
// reader, framing, router, dialects, streams, and registrations, with a fake engine. The first part of the
// input is the schedule of the clients' writes. Every connection must end, its answers must be HTTP, and
// nothing may stay registered.
#include <boost/beast/core/flat_buffer.hpp>
#include <cstdint>
#include <cstdlib>

#include "base/log.h"
#include "base/utf8.h"
#include "tests/connection_rig.h"

namespace {

using namespace ft::server;
using ft::server::test::ConnectionRig;
using ft::server::test::FakeEngine;

constexpr const char* kModel = "assets/qwen3.5-tiny";  // from the root of the repository
constexpr std::size_t kMaxClients = 3, kMaxSteps = 32;

void demand(bool holds) {
  if (!holds) std::abort();
}

const std::shared_ptr<const ft::api::ModelInfo>& model_info() {
  static const auto tokenizer = ft::Tokenizer::load(kModel);
  static const auto chat_template = ft::ChatTemplate::load(kModel);
  ft::set_log_level(ft::LogLevel::kOff);  // failing connections are expected
  demand(tokenizer.ok() && chat_template.ok());
  static const std::shared_ptr<const ft::api::ModelInfo> made = [] {
    auto model_info = std::make_shared<ft::api::ModelInfo>(ft::api::test::model_info());
    model_info->tokenizer = &*tokenizer, model_info->chat_template = &*chat_template;
    model_info->chat_format = ft::find_chat_format("qwen3_5");
    model_info->eos = {8180, 8178};
    model_info->vocabulary = tokenizer->vocab_size(), model_info->context = 4096;
    return model_info;
  }();
  return made;
}

/// Applies `settings` to the first request: a key, allowed names, a smaller body budget.
ServerOptions options_of(unsigned settings) {
  ServerOptions options;
  options.quiet = true;
  if ((settings & 1U) != 0) options.api_keys = {"key"};
  if ((settings & 2U) != 0) options.hosts = {"example.org"};
  if ((settings & 4U) != 0) options.bodies_bytes = 64;
  return options;
}

void check_answers(const std::string& answers) {
  demand(answers.empty() || answers.starts_with("HTTP/1."));
  for (std::size_t at = 0; (at = answers.find("HTTP/1.", at)) != std::string::npos; ++at) {
    if (at > 0 && answers.compare(at - 1, 1, "\n") != 0 && answers[at - 1] != '}') continue;  // inside a body
    const int status = std::atoi(answers.c_str() + std::min(answers.size(), at + 9));
    demand(status == 0 || (status >= 100 && status < 600));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::size_t steps = data[1] % kMaxSteps;
  if (size < 2 + 2 * steps) return 0;
  const std::uint8_t* step = data + 2;
  std::string_view bytes(reinterpret_cast<const char*>(step) + 2 * steps, size - 2 - 2 * steps);
  ConnectionRig rig(options_of(data[0]), FakeEngine::Mood::kByLength, model_info());
  const std::size_t room = rig.server_context.bodies.left();
  for (std::size_t i = 0; i < kMaxClients; ++i) rig.open();
  for (std::size_t i = 0; i < steps; ++i, step += 2) {
    const std::size_t client = step[0] % kMaxClients;
    const std::size_t length = std::min<std::size_t>(bytes.size(), (step[0] / kMaxClients) * 8U + step[1]);
    rig.send(client, bytes.substr(0, length));
    bytes.remove_prefix(length);
    if (step[1] == 255) rig.leave(client);
    rig.settle();
  }
  rig.send(0, bytes);
  rig.finish();
  for (std::size_t i = 0; i < kMaxClients; ++i) check_answers(rig.received(i));
  demand(rig.app.decoding() == 0 && rig.server_context.connections == 0 &&
         rig.server_context.bodies.left() == room);
  const std::string page = metrics_text({}, {}, rig.app.http(), {});
  demand(ft::utf8_valid(page) && page.size() < (std::size_t{64} << 10));
  return 0;
}
