#include "api/openai/completions.h"

#include <array>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "api/openai/completions_request.h"
#include "api/openai/completions_writer.h"
#include "api/prepare.h"

namespace ft::api {
namespace {

/// The fill-in-the-middle tokens of Qwen and other models.
constexpr std::array<std::string_view, 3> kMiddle{"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"};

Status check_middle(const Tokenizer& tokenizer) {
  for (const std::string_view token : kMiddle) {
    FT_ASSIGN(const std::vector<std::int32_t> ids, tokenizer.encode(token, false));
    if (ids.size() == 1 && tokenizer.token_bytes(ids[0]) == token) continue;
    return Error{
        Code::kUnsupported,
        fmt::format("suffix: this model does not support fill-in-the-middle (it has no token {}); leave "
                    "suffix out, or serve a coder model",
                    token),
        "suffix"};
  }
  return {};
}

Status add_suffix(const Tokenizer& tokenizer, const std::string& suffix, GenerateParams& call) {
  FT_TRY(check_middle(tokenizer));
  for (GenerateParams::Prompt& prompt : call.prompts) {
    if (prompt.text.empty() && !prompt.ids.empty()) prompt.text = tokenizer.decode(prompt.ids, false);
    prompt.text = fmt::format("{}{}{}{}{}", kMiddle[0], prompt.text, kMiddle[1], suffix, kMiddle[2]);
  }
  return {};
}

}  // namespace

Result<Exchange> completions_exchange(const ModelInfo& model_info, std::string_view body,
                                      const ResponseMeta& meta) {
  FT_ASSIGN(const Json json, parse_body(body));
  FT_ASSIGN(CompletionsRequest request, read_completions(json, model_info.vocabulary));
  std::vector<std::string> echoes;
  for (const GenerateParams::Prompt& prompt : request.call.prompts) {
    if (!request.echo) break;
    echoes.push_back(prompt.ids.empty() ? prompt.text : model_info.tokenizer->decode(prompt.ids, false));
  }
  if (!request.suffix.empty()) FT_TRY(add_suffix(*model_info.tokenizer, request.suffix, request.call));
  Result<Prepared> prepared = prepare(model_info, request.call, meta.seed);
  if (!prepared.ok()) {
    Error error = prepared.error();
    if (error.field == "messages") error.field = "prompt";
    return error;
  }
  auto writer = std::make_unique<CompletionsWriter>(model_info, request.call, meta, std::move(echoes));
  return Exchange{request.call.stream, std::move(writer), std::move(prepared->requests)};
}

}  // namespace ft::api
