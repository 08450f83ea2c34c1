// The shipped model in an Engine, with short calls that generate an answer. For tests; header-only. Starts in
// about 0.3 s.
#pragma once

#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backends/registry.h"
#include "sched/engine.h"

namespace ft::test {

inline constexpr const char* kModel = "assets/qwen3.5-tiny";

inline constexpr std::size_t kUnread = 100;

struct Collected {
  std::string text, reasoning;
  Error error;
  std::vector<std::int32_t> tokens;
  Finish finish = Finish::kNone;
  bool by_stop_string = false;
  Report report;
};

class EngineTest : public testing::Test {
 protected:
  void SetUp() override { load(), start(options()); }

  void load(int kv_bits = 16) {
    model_ = std::make_unique<Model>(std::move(*load_model(kModel)));
    tokenizer_ = std::make_unique<Tokenizer>(std::move(*Tokenizer::load(kModel)));
    // Tests run side by side, and threads of a backend wait for each other.
    backend_ = std::move(*make_backend({.threads = 1, .settings = {{"kv-bits", kv_bits}}}));
  }

  static EngineOptions options() {
    EngineOptions options;
    options.decoder.slots = 3;
    options.decoder.context = 512;
    options.queue = 4;
    options.unread_events = kUnread;
    return options;
  }

  void start(const EngineOptions& options) {
    engine_.reset();
    engine_ = std::move(*Engine::start(*backend_, *model_, *tokenizer_, options));
  }

  RequestFields fields(const std::string& user, DrafterKind kind = DrafterKind::kAuto, int max_tokens = 48) {
    RequestFields fields;
    fields.prompt_text =
        "<|im_start|>user\n" + user + "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n";
    fields.prompt = *tokenizer_->encode(fields.prompt_text, false);
    fields.slot.max_tokens = max_tokens;
    fields.slot.eos = {8180, 8178};
    fields.drafter = kind;
    return fields;
  }

  Ticket submit(RequestFields request) {
    return std::move(*engine_->submit(std::move(*Request::make(std::move(request), engine_->vocabulary()))));
  }

  static Collected collect(Ticket& ticket, int cancel_after = -1) {
    Collected all;
    for (;;) {
      Event event = ticket.next();
      if (event.kind == Event::Kind::kToken) all.tokens.push_back(event.token);
      if (event.kind == Event::Kind::kText) all.text += event.text;
      if (event.kind == Event::Kind::kReasoning) all.reasoning += event.text;
      if (cancel_after >= 0 && static_cast<int>(all.tokens.size()) >= cancel_after) ticket.cancel();
      if (event.kind != Event::Kind::kEnd) continue;
      all.finish = event.finish;
      all.by_stop_string = event.by_stop_string;
      all.error = event.error;
      all.report = event.report;
      return all;
    }
  }

  Collected answer(RequestFields request) {
    Ticket ticket = submit(std::move(request));
    return collect(ticket);
  }

  std::unique_ptr<Model> model_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace ft::test
