// One request through the engine and its answer gathered: what run, chat and bench share.
// Owner: values. Thread: the main thread waits, the engine's works. Cost: one wake-up an event.
// Errors: kInvalid from Request::make or for an id outside the vocabulary; kExhausted for a prompt that is
// too long.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/prompt.h"
#include "sched/engine.h"
#include "sched/request.h"

namespace ft::cli {

struct ToolCall {
  std::string name, arguments;  // arguments: JSON text
};

struct GatheredAnswer {
  std::string text, reasoning;
  std::vector<ToolCall> tool_calls;
  std::vector<std::int32_t> ids;
  std::vector<Logprobs> logprobs;  // one an id, if asked for
  Finish finish = Finish::kNone;
  bool by_stop_string = false;
  Error error;
  Report report;
};

struct Ask {
  Sampler sampler;
  std::vector<LogitBias> bias;
  AnswerChoice answer;
  SpeculationChoice speculation;
  std::vector<std::int32_t> predicted;
  ConstraintChoice constraint = {};
};

/// The text of --predict as tokens; empty without the flag.
Result<std::vector<std::int32_t>> read_predicted(const std::string& file, const Tokenizer& tokenizer);

/// Engine with one slot for `loaded`, which must outlive it. load_ms grows by the time that packing takes.
Result<std::unique_ptr<Engine>> start_engine(Loaded& loaded);

/// What depths are chosen by at first, for --explain-depth.
std::string cost_note(const Engine& engine);

Result<Request> make_request(const Prompt& prompt, const Ask& ask, const Loaded& loaded);

/// Waits for the end. `show` sees every event as it comes.
GatheredAnswer gather(Ticket& ticket, const std::function<void(const Event&)>& show = {});

/// "tool_calls" where a stop follows one; else finish_name.
std::string finish_text(const GatheredAnswer& answer);

}  // namespace ft::cli
