#include "cli/commands/answering.h"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>

#include "base/text_file.h"

namespace ft::cli {
namespace {

/// The constraint of the answer; null: none.
Result<std::shared_ptr<const Grammar>> read_grammar(const ConstraintOptions& constraint,
                                                    const LoadedModel& loaded) {
  const auto& eos = loaded.model.facts.eos_ids;
  const GrammarCompiler compiler(*loaded.tokenizer, {eos.begin(), eos.end()});
  if (!constraint.json_schema.empty()) {
    FT_ASSIGN(const std::string schema, read_text_file(constraint.json_schema, kMaxSchemaBytes));
    return compiler.json_schema(schema);
  }
  if (constraint.json_object) return compiler.json_object();
  if (constraint.regex) return compiler.regex(*constraint.regex);
  if (constraint.lark.empty()) return std::shared_ptr<const Grammar>();
  FT_ASSIGN(const std::string source, read_text_file(constraint.lark, kMaxGrammarBytes));
  return compiler.lark(source);
}

}  // namespace

Result<std::vector<std::int32_t>> read_predicted(const std::string& file, const Tokenizer& tokenizer) {
  if (file.empty()) return std::vector<std::int32_t>();
  FT_ASSIGN(const std::string text, read_text_file(file, kMaxPromptBytes));
  return tokenizer.encode(text, false);
}

Result<std::unique_ptr<Engine>> start_engine(LoadedModel& loaded, std::int64_t recall_bytes) {
  EngineOptions options;
  options.decoder.slots = 1;
  options.decoder.context = loaded.context;
  options.decoder.recall_bytes = recall_bytes;
  return start_engine(loaded, std::move(options));
}

Result<std::unique_ptr<Engine>> start_engine(LoadedModel& loaded, EngineOptions options) {
  const auto start = std::chrono::steady_clock::now();
  options.decoder.max_pixels = loaded.max_pixels;
  options.weights_mapped = maps_weights(loaded);
  options.costs = loaded.costs;
  options.chat_format = loaded.chat_format;
  Result<std::unique_ptr<Engine>> engine =
      Engine::start(*loaded.backend, loaded.model, *loaded.tokenizer, options);
  loaded.ahead.reset();
  if (!engine.ok()) return model_error(engine.error());
  loaded.load_ms +=
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return engine;
}

std::string cost_note(const Engine& engine) { return fmt::format("calibration: {}", engine.cost_source()); }

Result<Request> make_request(const Prompt& prompt, const GenerateOptions& ask, const LoadedModel& loaded) {
  RequestFields fields;
  fields.prompt = prompt.ids, fields.images = prompt.images;
  fields.prompt_text = prompt.text;
  fields.tools = prompt.tools;
  fields.parse = prompt.templated;
  fields.explain_depth = ask.explain_depth;
  FT_ASSIGN(fields.grammar, read_grammar(ask.constraint, loaded));
  fields.slot.predicted = ask.predicted;
  fields.slot.owner = ask.owner;
  return build_request(std::move(fields), ask.request, request_model(loaded));
}

GatheredAnswer collect_answer(Ticket& ticket, const std::function<void(const Event&)>& show) {
  GatheredAnswer answer;
  for (;;) {
    Event event = ticket.next();
    if (show) show(event);
    switch (event.kind) {
      case Event::Kind::kToken:
        answer.ids.push_back(event.token);
        if (event.logprobs) answer.logprobs.push_back(std::move(*event.logprobs));
        break;
      case Event::Kind::kText:
        answer.text += event.text;
        break;
      case Event::Kind::kReasoning:
        answer.reasoning += event.text;
        break;
      case Event::Kind::kToolBegin:
        answer.tool_calls.push_back({std::move(event.text), ""});
        break;
      case Event::Kind::kToolArguments:
        if (!answer.tool_calls.empty()) answer.tool_calls.back().arguments += event.text;
        break;
      case Event::Kind::kPromptToken:  // not requested by any subcommand
      case Event::Kind::kToolEnd:
      case Event::Kind::kDepth:
        break;
      case Event::Kind::kEnd:
        answer.finish = event.finish;
        answer.by_stop_string = event.by_stop_string;
        answer.error = std::move(event.error);
        answer.report = std::move(event.report);
        return answer;
    }
  }
}

std::string finish_text(const GatheredAnswer& answer) {
  if (answer.finish == Finish::kStop && !answer.tool_calls.empty()) return "tool_calls";
  return std::string(finish_name(answer.finish));
}

}  // namespace ft::cli
