// Writes the answer of POST /v1/completions: text_completion objects with the legacy form of
// log-probabilities (tokens, token_logprobs, top_logprobs, text_offset). With echo the prompt comes first,
// including its tokens if log-probabilities are requested; the first token has none. The token that ends an
// answer has log-probabilities but no text. Choice i belongs to prompt i / n. Source: OpenAI's API reference
// (legacy completions). See writer.h.
#pragma once

#include <string>
#include <vector>

#include "api/accounting.h"
#include "api/choice.h"
#include "api/generate_params.h"
#include "api/writer.h"

namespace ft::api {

class CompletionsWriter final : public AnswerWriter {
 public:
  /// `echoes` holds the prompt texts, or is empty.
  CompletionsWriter(const ModelInfo& model_info, const GenerateParams& call, ResponseMeta meta,
                    std::vector<std::string> echoes);

  void begin(std::string& out) override;
  void add(std::size_t choice, const Event& event, std::string& out) override;
  void end(std::string& out) override;
  HttpResponse reply() override;

 private:
  struct Shown {             // progress of one choice in the stream
    std::size_t tokens = 0;  // prompt and answer tokens with sent log-probabilities
    std::size_t characters = 0;
    bool echoed = false;
  };
  Json envelope() const;
  void echo(std::size_t index, std::string& out);
  void frame(std::size_t index, const std::string& text, Json finish, std::string& out);
  Json logprobs(std::size_t index, Shown& shown) const;
  Account sum() const;

  const std::vector<std::string> echoes_;
  const std::size_t each_;  // choices per prompt
  const bool stream_usage_, logprobs_, scores_;
  std::vector<Choice> choices_;
  std::vector<Shown> shown_;
};

}  // namespace ft::api
