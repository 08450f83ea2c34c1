#include "api/prepare.h"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <optional>

#include "api/encoding.h"
#include "api/fields.h"
#include "api/rendering.h"
#include "base/json.h"
#include "sched/request_builder.h"
#include "speculation/not_drafted.h"
#include "text/reasoning_effort.h"

namespace ft::api {
namespace {

constexpr Encoded kPrompt{"prompt", "messages"};

struct Rendered {
  std::string text;
  ImagePrompt prompt;
};

/// The client's template variables, and the effort in the template's word.
std::string variables_of(const ChatTemplate& chat_template, const GenerateParams& call) {
  if (call.effort.empty() || call.think == false) return call.template_variables;
  const std::string word = effort_word(chat_template.source(), call.effort);
  Json variables =
      call.template_variables.empty() ? Json::object() : read_json<Json>(call.template_variables);
  if (word.empty() || variables.contains("reasoning_effort")) return call.template_variables;
  variables["reasoning_effort"] = word;
  return dump(variables);
}

Result<Rendered> render(const ModelInfo& model_info, const GenerateParams& call) {
  if (model_info.chat_template == nullptr) {
    return Error{Code::kUnsupported,
                 model_info.chat_template_problem + "; use /v1/completions, which needs no template",
                 "messages"};
  }
  RenderOptions options;
  options.enable_thinking = call.think;
  options.extra_json = variables_of(*model_info.chat_template, call);
  options.now_s =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
          .count();
  Rendered rendered;
  Result<RenderedConversation> made =
      render_conversation(*model_info.chat_template, call, options, model_info.chat_format->reasoning.header);
  if (!made.ok()) {
    const Error& error = made.error();
    return Error{error.code, error.message, error.field.empty() ? "messages" : error.field};
  }
  rendered.text = std::move(made->text);
  FT_ASSIGN(std::vector<std::int32_t> ids, encode_within(model_info, rendered.text, false, kPrompt));
  FT_ASSIGN(const Pictures pictures, load_images(model_info.images, made->images));
  Result<ImagePrompt> placed = place_images(model_info.images, std::move(ids), pictures);
  if (!placed.ok()) return Error{placed.error().code, placed.error().message, "messages"};
  rendered.prompt = std::move(*placed);
  return rendered;
}

Result<RequestFields> fields_of(const ModelInfo& model_info, const GenerateParams& call,
                                const GenerateParams::Prompt& prompt) {
  RequestFields fields;
  fields.parse = call.prompts.empty();
  if (fields.parse) {
    FT_ASSIGN(Rendered rendered, render(model_info, call));
    fields.prompt = std::move(rendered.prompt.tokens), fields.prompt_text = std::move(rendered.text);
    fields.images = std::move(rendered.prompt.images);
    if (call.tool_choice != ToolChoice::kNone) fields.tools = call.tools;
  } else if (!prompt.text.empty()) {
    FT_ASSIGN(fields.prompt, encode_within(model_info, prompt.text, true, kPrompt));
    fields.prompt_text = prompt.text;
  } else {
    fields.prompt = prompt.ids;
  }
  FT_TRY(check_length(model_info, fields.prompt.size(), kPrompt));
  if (!call.predicted.empty()) {
    constexpr Encoded kPrediction{"the prediction", "prediction"};
    FT_ASSIGN(fields.slot.predicted, encode_within(model_info, call.predicted, false, kPrediction));
    FT_TRY(check_length(model_info, fields.slot.predicted.size(), kPrediction));
  }
  fields.score_prompt = call.score_prompt;
  return fields;
}

Error as_field(const Error& error, const std::string& field) {
  return Error{error.code, field + ": " + error.message, field};
}

using Compiled = GrammarCompiler::Compiled;

SchemaRule schema_rule(const GenerateParams& call) {
  return call.format == Format::kJsonSchema && call.strict_schema ? SchemaRule::kStrict
                                                                  : SchemaRule::kLenient;
}

Compiled format_grammar(const GrammarCompiler& grammars, const GenerateParams& call) {
  Compiled grammar = call.format == Format::kJsonObject
                         ? grammars.json_object()
                         : grammars.json_schema(call.schema, schema_rule(call));
  if (!grammar.ok()) return as_field(grammar.error(), call.schema_field);
  return grammar;
}

/// Compiles each format alone, so that an error names it and not the grammar around it.
Status check_text_formats(const GrammarCompiler& grammars, const GenerateParams& call) {
  for (const GenerateParams::FormattedText& text : call.text_formats) {
    const Compiled alone = text.format.syntax == "regex" ? grammars.regex(text.format.definition)
                                                         : grammars.lark(text.format.definition);
    if (!alone.ok()) return as_field(alone.error(), text.field);
  }
  return {};
}

/// Calls; unless they are required, also text before or instead of them, or an answer in the requested
/// format.
Compiled call_grammar(const ModelInfo& model_info, const GenerateParams& call, bool required) {
  FT_TRY(check_text_formats(*model_info.grammars, call));
  ToolCallRules rules;
  rules.tools_json = call.tools, rules.format = model_info.chat_format, rules.required = required;
  rules.allowed = call.allowed_tools;
  if (call.tool_choice == ToolChoice::kNamed) rules.allowed = {call.named_tool};
  for (const GenerateParams::FormattedText& text : call.text_formats) {
    rules.text_formats[text.tool] = text.format;
  }
  rules.parallel = call.parallel_tools && call.tool_choice != ToolChoice::kNamed;
  if (call.format != Format::kText) {
    rules.answer_schema = call.format == Format::kJsonObject ? R"({"type": "object"})" : call.schema;
    rules.answer_rule = schema_rule(call);
  }
  Compiled grammar = model_info.grammars->tool_calls(rules);
  if (!grammar.ok()) return as_field(grammar.error(), "tools");
  return grammar;
}

/// For an answer that is free and may hold calls: from a call's beginning on. Null where the calls of the
/// template, or this many tools, have no grammar (docs/limits.md).
std::shared_ptr<const Grammar> grammar_on_sight(const ModelInfo& model_info, const GenerateParams& call,
                                                std::uint64_t owner) {
  if (model_info.grammars == nullptr || model_info.chat_format->calls.body == nullptr) return nullptr;
  ToolCallRules rules;
  rules.tools_json = call.tools, rules.format = model_info.chat_format;
  rules.on_sight = true, rules.owner = owner;
  const Compiled grammar = model_info.grammars->tool_calls(rules);
  return grammar.ok() ? *grammar : nullptr;
}

bool may_call(const GenerateParams& call) {
  return !call.tools.empty() && call.tool_choice != ToolChoice::kNone;
}

/// An answer in the requested format, or calls.
bool either(const GenerateParams& call) {
  return may_call(call) && call.tool_choice == ToolChoice::kAuto && call.format != Format::kText;
}

/// The grammar of the content; null: unconstrained.
Compiled grammar_of(const ModelInfo& model_info, const GenerateParams& call, std::uint64_t owner) {
  const bool tools = may_call(call), formatted = call.format != Format::kText;
  const bool must = tools && call.tool_choice != ToolChoice::kAuto;
  const bool limited =
      call.strict_tools || !call.parallel_tools || !call.allowed_tools.empty() || !call.text_formats.empty();
  if (!formatted && !must && !limited && tools) return grammar_on_sight(model_info, call, owner);
  if (!formatted && !must && !tools) return std::shared_ptr<const Grammar>();
  if (model_info.grammars == nullptr) {
    return Error{Code::kUnsupported,
                 "this model's tokenizer does not support structured output; omit the format"};
  }
  if (must || !formatted) return call_grammar(model_info, call, must);
  Compiled format = format_grammar(*model_info.grammars, call);  // alone: its errors must not name tools
  return format.ok() && tools ? call_grammar(model_info, call, false) : format;
}

/// "require": an answer without drafts is refused.
Status check_speculation(const ModelInfo& model_info, const GenerateParams& call) {
  if (call.speculation != Speculation::kRequire) return {};
  const std::string problem = call.drafter == DrafterKind::kMtp ? model_info.drafter_problem : std::string();
  const std::optional<NotDrafted> why = ruled_out(call.drafter, call.depth, problem);
  if (!why) return {};
  return Error{Code::kUnsupported,
               "speculation is required but not available: " + not_drafted_text(*why, problem),
               "speculation"};
}

}  // namespace

Status check_model(const ModelInfo& model_info, const std::string& model) {
  const bool known =
      model.empty() || model_info.any_model || model == model_info.id ||
      std::find(model_info.aliases.begin(), model_info.aliases.end(), model) != model_info.aliases.end();
  if (known) return {};
  std::string names = model_info.id;
  for (const std::string& alias : model_info.aliases) names += ", " + alias;
  return Error{Code::kNotFound,
               fmt::format("the model \"{}\" is not served; this server has {}", model, names), "model"};
}

Result<std::vector<std::int32_t>> prompt_of(const ModelInfo& model_info, const GenerateParams& call) {
  FT_TRY(check_model(model_info, call.model));
  FT_ASSIGN(Rendered rendered, render(model_info, call));
  return std::move(rendered.prompt.tokens);
}

Result<Prepared> prepare(const ModelInfo& model_info, const GenerateParams& call, std::uint64_t random_seed,
                         const Caller& caller) {
  FT_TRY(check_model(model_info, call.model));
  FT_TRY(check_speculation(model_info, call));
  Prepared prepared;
  FT_ASSIGN(const std::shared_ptr<const Grammar> grammar, grammar_of(model_info, call, caller.owner));
  RequestOptions options = call;
  if (call.speculation == Speculation::kOff) options.drafter = DrafterKind::kNone;
  const std::uint64_t seed = call.seed.value_or(random_seed);
  const std::vector<GenerateParams::Prompt> one(1);
  for (const GenerateParams::Prompt& prompt : call.prompts.empty() ? one : call.prompts) {
    FT_ASSIGN(RequestFields fields, fields_of(model_info, call, prompt));
    fields.slot.owner = caller.owner, fields.sees_all_hits = caller.is_operator;
    fields.grammar = grammar, fields.calls_come_first = either(call);
    for (int i = 0; i < call.choices; ++i) {
      options.seed = seed + static_cast<std::uint64_t>(i);
      FT_ASSIGN(Request request, build_request(fields, options, model_info, call.only_prompt));
      prepared.requests.push_back(std::move(request));
      prepared.prompt_tokens.push_back(static_cast<int>(fields.prompt.size()));
    }
  }
  return prepared;
}

}  // namespace ft::api
