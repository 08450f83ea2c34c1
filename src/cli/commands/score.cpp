// `foretoken score`: log-likelihood, perplexity and top-k of a text under the model.
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <numeric>

#include "base/text_layout.h"
#include "cli/args/option_flags.h"
#include "cli/commands/loading.h"
#include "cli/commands/prompt.h"
#include "cli/commands/subcommands.h"
#include "cli/terminal/report_json.h"
#include "speculation/context_room.h"
#include "verify/text_quality.h"

namespace ft::cli {
namespace {

constexpr int kChunk = 64;  // logit rows per step: 64 MB with a vocabulary of 250,000

struct ScoreOptions {
  OutputOptions output;
  ModelOptions model;
  PromptOptions prompt;
  int top = 5;
  int chunk = 0;
};

ScoredPosition score_row(std::int32_t id, std::span<const float> logits, int top,
                         std::vector<std::int32_t>& order) {
  ScoredPosition position;
  position.id = id;
  const auto best = std::max_element(logits.begin(), logits.end());  // the first of equal ones: the lowest id
  position.argmax = static_cast<std::int32_t>(best - logits.begin());
  position.argmax_logit = *best;
  position.logsumexp = logsumexp(logits, *best);
  order.resize(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto count = std::min<std::ptrdiff_t>(top, static_cast<std::ptrdiff_t>(order.size()));
  std::partial_sort(order.begin(), order.begin() + count, order.end(), [&](std::int32_t a, std::int32_t b) {
    const float x = logits[static_cast<std::size_t>(a)], y = logits[static_cast<std::size_t>(b)];
    return x > y || (x == y && a < b);
  });
  for (std::ptrdiff_t i = 0; i < count; ++i) {
    const std::int32_t token = order[static_cast<std::size_t>(i)];
    position.top.emplace_back(token, logits[static_cast<std::size_t>(token)]);
  }
  return position;
}

void show(const ScoreReport& report, const Tokenizer& tokenizer, Terminal& terminal) {
  const auto word = [&](std::int32_t id) {
    std::string text(tokenizer.token_bytes(id));
    for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos;) text.replace(at, 1, "\\n");
    return fmt::format("'{}'", text);
  };
  std::vector<std::vector<std::string>> rows = {
      {"position", "token", "log p of the next", "most likely next"}};
  for (std::size_t i = 0; i < report.positions.size(); ++i) {
    const ScoredPosition& position = report.positions[i];
    std::string likeliest;
    for (const auto& [id, logit] : position.top) {
      likeliest += fmt::format("{} {:.2f}  ", word(id), static_cast<double>(logit) - position.logsumexp);
    }
    const bool last = i + 1 == report.positions.size();
    rows.push_back({std::to_string(i), word(position.id),
                    last ? "-" : fmt::format("{:.4f}", position.next_logprob), likeliest});
  }
  terminal.out(table_text(rows));
  terminal.out(fmt::format("\n{} tokens, log-likelihood {:.4f}, perplexity {:.4f}\n", report.positions.size(),
                           report.log_likelihood, report.perplexity()));
}

Result<int> run_score(const ScoreOptions& options, Terminal& terminal) {
  FT_ASSIGN(const std::unique_ptr<LoadedModel> loaded, load(options.model, &terminal));
  PromptOptions choice = options.prompt;
  choice.raw = !choice.has_ids && !choice.messages;  // a plain text is scored without the template
  FT_ASSIGN(const Prompt prompt, make_prompt(choice, *loaded));
  // A text that is only scored needs no room for an answer.
  FT_TRY(check_room(static_cast<std::int64_t>(prompt.ids.size()), loaded->context + 1, "the text"));
  for (const std::int32_t id : prompt.ids) {
    if (id < loaded->model.facts.vocabulary) continue;
    return Error{Code::kInvalid, fmt::format("token id {} is outside the vocabulary of {}", id,
                                             loaded->model.facts.vocabulary)};
  }
  DecoderOptions decoder_options;
  decoder_options.context = static_cast<std::int64_t>(prompt.ids.size());
  decoder_options.prefill_chunk = kChunk, decoder_options.logit_rows = kChunk;
  Result<std::unique_ptr<Decoder>> decoder = Decoder::make(*loaded->backend, loaded->model, decoder_options);
  if (!decoder.ok()) return model_error(decoder.error());

  ScoreReport report;
  std::vector<std::int32_t> order;
  Progress progress(terminal, "scoring", static_cast<std::int64_t>(prompt.ids.size()));
  FT_TRY((*decoder)->score(prompt.ids, options.chunk, [&](std::int64_t at, std::span<const float> logits) {
    const auto i = static_cast<std::size_t>(at);
    ScoredPosition position = score_row(prompt.ids[i], logits, options.top, order);
    if (i + 1 < prompt.ids.size()) {
      const auto next = static_cast<std::size_t>(prompt.ids[i + 1]);
      position.next_logprob = static_cast<double>(logits[next]) - position.logsumexp;
      report.log_likelihood += position.next_logprob;
    }
    report.positions.push_back(std::move(position));
    progress.set(at);
  }));
  if (options.output.json) {
    terminal.out(score_json(report) + "\n");
  } else {
    show(report, *loaded->tokenizer, terminal);
  }
  return 0;
}

}  // namespace

Command score_command() {
  auto options = std::make_shared<ScoreOptions>();
  Command command;
  command.name = "score";
  command.summary = "Show the log-likelihood, perplexity and most likely tokens of a text";
  command.examples =
      "  foretoken score -p \"def add(a, b):\"\n"
      "  foretoken score --prompt-ids 332,807,7 --top 20 --json\n"
      "  foretoken score -f chapter.txt --top 0\n";
  command.flags.group("Score");
  command.flags.add("top", "K", reads_int(options->top, 0, 1000),
                    "Most likely tokens shown per position (default 5)");
  command.flags.add("chunk", "N", reads_int(options->chunk, 0, kChunk),
                    "Positions per step; 0 (default): 64. Never changes a figure");
  command.flags.group("Text (default: standard input)");
  command.flags.add("prompt", "TEXT", reads_text(options->prompt.text), "Text to score").letter = "p";
  command.flags.add("prompt-file", "FILE", reads_text(options->prompt.file), "Read the text from this file")
      .letter = "f";
  command.flags.add("prompt-ids", "IDS", reads_ids(options->prompt.ids, options->prompt.has_ids),
                    "Token ids to score, such as 1,2,3");
  command.flags.add("messages", "FILE", reads_text(options->prompt.messages),
                    "Conversation to score: a JSON list of {role, content}");
  add_model_flags(command.flags, options->model);
  command.check = [options] { return check_prompt_flags(options->prompt); };
  return bind_options(std::move(command), std::move(options), run_score);
}

}  // namespace ft::cli
