// Writes the answer of POST /v1/completions: text_completion objects with the legacy shape of
// log-probabilities (tokens, token_logprobs, top_logprobs, text_offset). With echo the prompt comes first,
// and its tokens too if log-probabilities are asked for; the first has none. The token that ends an answer
// has no text, but log-probabilities. Choice i belongs to prompt i / n. Source: OpenAI's API reference
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
  /// `served` must outlive the writer; `echoes` holds the prompts' texts, or nothing.
  CompletionsWriter(const ModelInfo& model_info, const GenerateParams& call, ResponseMeta meta,
                    std::vector<std::string> echoes);

  std::string id() const override { return "cmpl-" + meta_.id; }
  void begin(std::string& out) override;
  void add(std::size_t choice, const Event& event, std::string& out) override;
  void keep_alive(std::string& out) override;
  void end(std::string& out) override;
  HttpResponse reply() override;

 private:
  struct Shown {             // of a choice, in the stream
    std::size_t tokens = 0;  // of prompt and answer, whose log-probabilities were sent
    std::size_t characters = 0;
    bool echoed = false;
  };
  Json head() const;
  void echo(std::size_t index, std::string& out);
  void frame(std::size_t index, const std::string& text, Json finish, std::string& out);
  Json logprobs(std::size_t index, Shown& shown) const;
  Account sum() const;

  const ModelInfo& model_info_;
  const std::string model_;
  const ResponseMeta meta_;
  const std::vector<std::string> echoes_;
  const std::size_t each_;  // choices of one prompt
  const bool stream_usage_, logprobs_, scores_;
  std::vector<Choice> choices_;
  std::vector<Shown> shown_;
};

}  // namespace ft::api
