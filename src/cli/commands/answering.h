// Runs one request through the engine and gathers its answer; run, chat and bench share it. A prompt that is
// too long gives kTooLong.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands/prompt.h"
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
  std::vector<Logprobs> logprobs;  // one per id, if requested
  Finish finish = Finish::kNone;
  bool by_stop_string = false;
  Error error;
  Report report;
};

struct GenerateOptions {
  RequestOptions request;
  ConstraintOptions constraint;
  std::vector<std::int32_t> predicted;
  bool explain_depth = false;
  std::uint64_t owner = 0;  // the user whose earlier texts may be drafted from
};

/// The tokens of the --predict file; empty without the flag.
Result<std::vector<std::int32_t>> read_predicted(const std::string& file, const Tokenizer& tokenizer);

/// An engine for `loaded`, which must outlive it. Sets the options that no subcommand decides and adds the
/// packing time to load_ms.
Result<std::unique_ptr<Engine>> start_engine(LoadedModel& loaded, EngineOptions options);

/// An engine with one slot for `loaded`, which must outlive it.
/// `recall_bytes`: memory for texts of earlier requests; 0: none are kept.
Result<std::unique_ptr<Engine>> start_engine(LoadedModel& loaded, std::int64_t recall_bytes = 0);

/// The initial calibration, for --explain-depth.
std::string cost_note(const Engine& engine);

Result<Request> make_request(const Prompt& prompt, const GenerateOptions& ask, const LoadedModel& loaded);

/// Waits for the end; `show` receives every event as it arrives.
GatheredAnswer collect_answer(Ticket& ticket, const std::function<void(const Event&)>& show = {});

/// "tool_calls" if the answer stops after a tool call; else finish_name.
std::string finish_text(const GatheredAnswer& answer);

}  // namespace ft::cli
