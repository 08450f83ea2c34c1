#include "api/openai/completions_writer.h"

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "api/error_reply.h"
#include "api/fields.h"
#include "base/json.h"
#include "base/utf8.h"

namespace ft::api {
namespace {

/// A token in this API's form: text, or its bytes if they are not complete characters.
std::string legacy_token(std::int32_t token, const Tokenizer& tokenizer) {
  const std::string_view bytes = tokenizer.token_bytes(token);
  if (utf8_valid(bytes)) return std::string(bytes);
  std::string text = "bytes:";
  for (const char byte : bytes) text += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
  return text;
}

/// Tokens with log-probabilities: the prompt, the answer, and the end token (without text) if there was one.
/// Harnesses expect one entry per generated token.
std::size_t scored_count(const Choice& choice) {
  return choice.prompt.size() + choice.tokens.size() + (choice.end_token ? 1 : 0);
}

const Choice::Token& scored_token(const Choice& choice, std::size_t i) {
  if (i < choice.prompt.size()) return choice.prompt[i];
  i -= choice.prompt.size();
  return i < choice.tokens.size() ? choice.tokens[i] : *choice.end_token;
}

}  // namespace

CompletionsWriter::CompletionsWriter(const ModelInfo& model_info, const GenerateParams& call,
                                     ResponseMeta meta, std::vector<std::string> echoes)
    : AnswerWriter("cmpl-", model_info, call.model, std::move(meta)),
      echoes_(std::move(echoes)),
      each_(static_cast<std::size_t>(call.choices)),
      stream_usage_(call.stream_usage),
      logprobs_(call.logprobs >= 0),
      scores_(call.score_prompt),
      choices_(call.prompts.size() * each_),
      shown_(choices_.size()) {}

Json CompletionsWriter::envelope() const {
  return Json{{"id", id()},
              {"object", "text_completion"},
              {"created", meta_.created_s},
              {"model", model_},
              {"system_fingerprint", "foretoken-" + model_info_.version}};
}

/// Writes the tokens that were not sent yet, and the new end position.
Json CompletionsWriter::logprobs(std::size_t index, Shown& shown) const {
  const Choice& choice = choices_[index];
  Json tokens = Json::array(), chosen = Json::array(), tops = Json::array(), offsets = Json::array();
  for (const std::size_t total = scored_count(choice); shown.tokens < total; ++shown.tokens) {
    const Choice::Token& token = scored_token(choice, shown.tokens);
    const std::string text = legacy_token(token.id, *model_info_.tokenizer);
    tokens.push_back(text);
    offsets.push_back(shown.characters);
    shown.characters += utf8_count(model_info_.tokenizer->token_bytes(token.id));
    if (!token.logprobs) {  // the first token of the prompt
      chosen.push_back(nullptr), tops.push_back(nullptr);
      continue;
    }
    chosen.push_back(finite_logprob(token.logprobs->sampled));
    Json top = Json::object();
    for (const TokenLogprob& one : token.logprobs->top) {
      top[legacy_token(one.token, *model_info_.tokenizer)] = finite_logprob(one.logprob);
    }
    top[text] = finite_logprob(token.logprobs->sampled);
    tops.push_back(std::move(top));
  }
  return Json{{"tokens", std::move(tokens)},
              {"token_logprobs", std::move(chosen)},
              {"top_logprobs", std::move(tops)},
              {"text_offset", std::move(offsets)}};
}

void CompletionsWriter::frame(std::size_t index, const std::string& text, Json finish, std::string& out) {
  Json entry{{"text", text}, {"index", index}, {"logprobs", nullptr}, {"finish_reason", std::move(finish)}};
  Shown& shown = shown_[index];
  const Choice& choice = choices_[index];
  if (logprobs_ && shown.tokens < scored_count(choice)) {
    entry["logprobs"] = logprobs(index, shown);
  }
  Json json = envelope();
  json["choices"] = Json::array({std::move(entry)});
  if (stream_usage_) json["usage"] = nullptr;
  add_frame("", json, out);
}

/// Sends the prompt's text; if its tokens are requested, waits until they are known.
void CompletionsWriter::echo(std::size_t index, std::string& out) {
  Shown& shown = shown_[index];
  if (echoes_.empty() || std::exchange(shown.echoed, true)) return;
  const std::string& text = echoes_[index / each_];
  frame(index, text, Json(), out);
  if (!scores_) shown.characters = utf8_count(text);
}

void CompletionsWriter::begin(std::string& out) {
  if (scores_) return;  // the prompt is still in prefill
  for (std::size_t i = 0; i < choices_.size(); ++i) echo(i, out);
}

void CompletionsWriter::add(std::size_t index, const Event& event, std::string& out) {
  Choice& choice = choices_[index];
  const bool answers = event.kind != Event::Kind::kPromptToken;
  if (answers && scores_) echo(index, out);  // before the first token of the answer is counted
  choice.take(event, model_info_.eos, "call_");
  if (event.kind == Event::Kind::kText) frame(index, event.text, Json(), out);
  if (event.kind != Event::Kind::kEnd) return;
  if (choice.failed()) {
    add_frame("", read_json<Json>(error_reply(Dialect::kOpenAi, choice.failure(), "").body), out);
  } else {
    frame(index, "", std::string(finish_name(choice.finish)), out);
  }
}

/// Each prompt is counted once.
Account CompletionsWriter::sum() const {
  Account all = account(choices_);
  all.prompt_tokens = all.cached_tokens = 0;
  for (std::size_t i = 0; i < choices_.size(); i += each_) {
    const auto first = choices_.begin() + static_cast<std::ptrdiff_t>(i);
    const Account one = account({first, first + static_cast<std::ptrdiff_t>(each_)});
    all.prompt_tokens += one.prompt_tokens, all.cached_tokens += one.cached_tokens;
  }
  return all;
}

void CompletionsWriter::end(std::string& out) {
  const bool failed =
      std::any_of(choices_.begin(), choices_.end(), [](const Choice& c) { return c.failed(); });
  if (failed) return;  // the error frame ended the stream
  if (stream_usage_) {
    const Account all = sum();
    Json json = envelope();
    json["choices"] = Json::array();
    json["usage"] = openai_usage(all);
    json["speculation"] = speculation_json(all);
    json["timings"] = timings_json(all);
    add_frame("", json, out);
  }
  out += "data: [DONE]\n\n";
}

HttpResponse CompletionsWriter::reply() {
  Json json = envelope();
  json["choices"] = Json::array();
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    const Choice& choice = choices_[i];
    if (choice.failed()) return error_reply(Dialect::kOpenAi, choice.failure(), "");
    const std::string echoed = echoes_.empty() ? "" : echoes_[i / each_];
    Json entry{{"text", echoed + choice.text},
               {"index", i},
               {"logprobs", nullptr},
               {"finish_reason", finish_name(choice.finish)}};
    Shown shown;
    if (!scores_) shown.characters = utf8_count(echoed);
    if (logprobs_) entry["logprobs"] = logprobs(i, shown);
    json["choices"].push_back(std::move(entry));
  }
  return accounted_reply(std::move(json), sum());
}

}  // namespace ft::api
