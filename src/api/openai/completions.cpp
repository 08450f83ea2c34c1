#include "api/openai/completions.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "api/known_fields.h"
#include "api/openai/completions_request.h"
#include "api/openai/completions_writer.h"
#include "api/prepare.h"

namespace ft::api {
namespace {

Status check_middle(const ChatFormat& format, const Tokenizer& tokenizer) {
  for (const std::string_view token : format.middle) {
    FT_ASSIGN(const std::vector<std::int32_t> ids, tokenizer.encode(token, false));
    if (ids.size() == 1 && tokenizer.token_bytes(ids[0]) == token) continue;
    const std::string lacks = token.empty() ? std::string("its format has no tokens for it")
                                            : fmt::format("it has no token {}", token);
    return Error{Code::kUnsupported,
                 fmt::format("suffix: this model does not support fill-in-the-middle ({}); omit suffix, or "
                             "serve a coder model",
                             lacks),
                 "suffix"};
  }
  return {};
}

Status add_suffix(const ModelInfo& model_info, const std::string& suffix, GenerateParams& call) {
  const auto& [before, between, after] = model_info.chat_format->middle;
  FT_TRY(check_middle(*model_info.chat_format, *model_info.tokenizer));
  for (GenerateParams::Prompt& prompt : call.prompts) {
    if (prompt.text.empty() && !prompt.ids.empty()) {
      prompt.text = model_info.tokenizer->decode(prompt.ids, false);
    }
    prompt.text = fmt::format("{}{}{}{}{}", before, prompt.text, between, suffix, after);
  }
  return {};
}

}  // namespace

Result<Exchange> completions_exchange(const ModelInfo& model_info, std::string_view body,
                                      const ResponseMeta& meta) {
  FT_ASSIGN(const Json json, parse_body(body));
  Notes notes;
  FT_TRY(check_members(json, Body::kCompletions, model_info.strict_fields, notes));
  FT_ASSIGN(CompletionsRequest request, read_completions(json, model_info.vocabulary));
  std::vector<std::string> echoes;
  for (const GenerateParams::Prompt& prompt : request.call.prompts) {
    if (!request.echo) break;
    echoes.push_back(prompt.ids.empty() ? prompt.text : model_info.tokenizer->decode(prompt.ids, false));
  }
  if (!request.suffix.empty()) FT_TRY(add_suffix(model_info, request.suffix, request.call));
  Result<Prepared> prepared = prepare(model_info, request.call, meta.seed, meta.caller);
  if (!prepared.ok()) {
    Error error = prepared.error();
    if (error.field == "messages") error.field = "prompt";
    return error;
  }
  auto writer = std::make_unique<CompletionsWriter>(model_info, request.call, meta, std::move(echoes));
  return Exchange{request.call.stream, std::move(writer), std::move(prepared->requests), std::move(notes)};
}

}  // namespace ft::api
